// A capture: one call of a plan as a file, to be done again elsewhere: problem, schedule, source,
// launches and image of its kernels, the call's sizes and strides, and (optionally) the values of
// its tensors. Bytes: docs/capture_format.md.
//
// Written by `lssar capture` and, with LSSAR_CAPTURE_DIR, by plans (plan_capture.h); read by
// `lssar replay`. Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/sizes.h"
#include "runtime/engine.h"
#include "runtime/operands.h"
#include "runtime/part_file.h"

namespace lssar {

struct CapturedKernel {
  Problem problem;  // batch and heads are the call's
  Schedule schedule;
  std::string target;       // what it was made for: "sm_90a"
  KernelSource source;      // as it was compiled, with its launches
  bool overridden = false;  // by LSSAR_OVERRIDE_DIR
  std::string compiler;     // "nvrtc 13.0.88"
  std::string key;          // of the binary cache
  std::string metadata;     // encode_image_metadata of the image
  Image image;
};

struct CapturedTensor {
  std::string name;                // as of list_operands: "q", "saved_stats"
  int64_t strides[3] = {0, 0, 0};  // batch, head, row, in elements
  int offset = 0;                  // of data, in bytes above a multiple of 256
  // Its elements without gaps: of what the call reads before it, of what it writes after it.
  std::optional<std::string> packed;
};

struct Capture {
  std::string version;         // of lssar
  std::string params_layout;   // of params_layout.h
  std::string device, driver;  // names
  std::string data = "given";  // where the inputs come from: "given", or an input kind and a seed
  uint64_t seed = 0;
  Sizes sizes;
  size_t workspace_bytes = 0;
  // What the call ran is the last. A backward has its forward for training before it, if the
  // capturer had one.
  std::vector<CapturedKernel> kernels;
  std::vector<CapturedTensor> tensors;  // those of list_operands but for the workspace, in order

  const CapturedKernel& kernel() const { return kernels.back(); }
  bool has_inputs() const;
  bool has_outputs() const;
};

// A kernel that `engine` has prepared, for a call of `sizes`. kUnsupported with LSSAR_DEBUG_WAITS.
Result<CapturedKernel> capture_kernel(Engine& engine, const PreparedKernel& kernel,
                                      const Sizes& sizes);

// Everything but kernels and tensors, as of this library and `engine`.
Capture begin_capture(Engine& engine, const Sizes& sizes);

// The operands of a kernel's call but for its workspace, with the memory of `tensors`.
Result<Operands> call_operands(const Problem& problem, const Schedule& schedule, const Sizes& sizes,
                               const Tensors& tensors);

// Where `operand` lies, without its values.
CapturedTensor layout_of(const Operand& operand);

// The operands of the captured call, in the order of capture.tensors; data is the tensor's offset
// (nothing lies there). kInvalidArgument where they are not those of the problem.
Result<Operands> operands_of(const Capture& capture);

// Sets what `name` names. REQUIRES: a name of list_operands.
void set_tensor(Tensors* tensors, const std::string& name, const Tensor& value);

// As write_part_file.
Status write_capture(const std::string& path, const Capture& capture, bool is_own_name = false);
Result<std::vector<NamedPart>> capture_parts(const Capture& capture);

// kIoError: not such a file, truncated, damaged. kInvalidArgument: well formed, but a field is not
// what this library allows; kUnsupported: of a newer lssar. Each names the file, and part or field.
Result<Capture> read_capture(const std::string& path);
Result<Capture> read_capture(const PartFile& file);

}  // namespace lssar
