// A capture: one call of a plan in a file, to be repeated elsewhere. It has the problem, schedule,
// source, launches and image of each kernel, the call's sizes and strides, and optionally the
// values of its tensors. Bytes: docs/capture_format.md.
//
// `lssar capture` writes captures, and so do plans with LSSAR_CAPTURE_DIR (plan_capture.h). `lssar
// replay` reads them. Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/part_file.h"
#include "codegen/emit.h"
#include "codegen/sizes.h"
#include "runtime/engine.h"
#include "runtime/operands.h"

namespace lssar {

struct CapturedKernel {
  Problem problem;  // with the call's batch and heads
  Schedule schedule;
  std::string target;       // what it was made for: "sm_90a"
  KernelSource source;      // as it was compiled, with its launches
  bool overridden = false;  // whether LSSAR_OVERRIDE_DIR supplied the source
  std::string compiler;     // "nvrtc 13.0.88"
  std::string key;          // in the binary cache
  std::string metadata;     // encode_image_metadata of the image
  Image image;
};

struct CapturedTensor {
  std::string name;                // as in list_operands: "q", "saved_stats"
  int64_t strides[3] = {0, 0, 0};  // batch, head, row, in elements
  int offset = 0;                  // of data, in bytes above a multiple of 256
  // The elements without gaps: inputs as they were before the call, outputs as they were after it.
  std::optional<std::string> packed;
};

struct Capture {
  std::string version;         // of lssar
  std::string params_layout;   // of params_layout.h
  std::string device, driver;  // names
  std::string data = "given";  // origin of the inputs: "given", or an input kind and a seed
  uint64_t seed = 0;
  Sizes sizes;
  size_t workspace_bytes = 0;
  // The last one is the kernel of the call. A backward has its forward for training before it, if
  // the capturer had one.
  std::vector<CapturedKernel> kernels;
  std::vector<CapturedTensor> tensors;  // those of list_operands, in order, without the workspace

  const CapturedKernel& kernel() const { return kernels.back(); }
  bool has_inputs() const;
  bool has_outputs() const;
};

// Captures a kernel that `engine` prepared, for a call of `sizes`. kUnsupported with
// LSSAR_DEBUG_WAITS.
Result<CapturedKernel> capture_kernel(Engine& engine, const PreparedKernel& kernel,
                                      const Sizes& sizes);

// A capture of this library and `engine`, without kernels and tensors.
Capture begin_capture(Engine& engine, const Sizes& sizes);

// The operands of a kernel's call, without its workspace. Addresses are those of `tensors`.
Result<Operands> call_operands(const Problem& problem, const Schedule& schedule, const Sizes& sizes,
                               const Tensors& tensors);

// The layout of `operand`, without its values.
CapturedTensor layout_of(const Operand& operand);

// The operands of the captured call, in the order of capture.tensors. Their data is not a real
// address but has the tensor's offset. kInvalidArgument if they do not match the problem.
Result<Operands> operands_of(const Capture& capture);

// Sets the member of `tensors` called `name`. REQUIRES: `name` is one of list_operands.
void set_tensor(Tensors* tensors, const std::string& name, const Tensor& value);

// Writes as write_part_file does.
Status write_capture(const std::string& path, const Capture& capture, bool is_own_name = false);
Result<std::vector<NamedPart>> capture_parts(const Capture& capture);

// kIoError: not a capture, truncated, or damaged. kInvalidArgument: well formed, but this library
// does not allow a field's value. kUnsupported: written by a newer lssar. Each names the file, and
// the part or field.
Result<Capture> read_capture(const std::string& path);
Result<Capture> read_capture(const PartFile& file);

}  // namespace lssar
