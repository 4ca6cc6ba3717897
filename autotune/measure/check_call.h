// CheckCall: one call of a kernel, with guard zones around every tensor and the workspace.
//
// Used by the checks of candidates. Threads: one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotune/measure/guarded_buffer.h"
#include "autotune/table/sequence_lengths.h"
#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"
#include "reference/random_inputs.h"
#include "runtime/engine.h"

namespace lssar {

// What the backward reads of a forward for training, in bytes. `rounding` is saved_o.
struct SavedTensors {
  std::vector<std::byte> o, rounding, stats, x;
};

// What a kernel changed but should not have, or should have written but did not.
struct Damage {
  bool found = false;
  std::string what;
};

// The rows where sequences of these lengths begin, then the number of rows: cu_seqlens.
std::vector<int32_t> sums_of(const std::vector<int64_t>& lengths);

class CheckCall {
 public:
  // The pass is the kernel's. For a problem with varlen, `sizes` are those of the call, `lengths`
  // those of its sequences (none: even_lengths), and tensors hold all of them as one batch entry.
  static Result<CheckCall> create(Engine& engine, std::shared_ptr<const PreparedKernel> kernel,
                                  const Sizes& sizes, const SequenceLengths& lengths = {});

  // Fills everything with poison, writes the inputs (for a backward also `saved`), runs, waits and
  // reads back. An error is the device's; mostly the kernel caused it.
  Status run(const RandomInputs& inputs, const SavedTensors& saved);

  // After run(): a guard or an input that was written, or an output that was not.
  Damage damage() const;
  // The first difference between the outputs of two runs, bit by bit; "" if there is none.
  // REQUIRES: both calls have the same problem and sizes.
  std::string difference(const CheckCall& other) const;

  // By the name of the tensor: "o", "saved_o", "grad_q", ...
  std::vector<float> values(const std::string& name) const;
  // The same as [heads, rows, dim] of all sequences, for saved_o, whose sequences lie one after
  // another.
  std::vector<float> saved_o_values() const;
  // The bytes of every output that the kernel has, by name.
  std::map<std::string, std::vector<std::byte>> output_bytes() const;
  SavedTensors saved() const;

 private:
  struct Item {
    GuardedBuffer buffer;
    enum class Role { kInput, kOutput, kScratch } role = Role::kInput;
    DType dtype = DType::kFp32;
  };
  CheckCall(Engine& engine, std::shared_ptr<const PreparedKernel> kernel, const Sizes& sizes,
            SequenceLengths lengths)
      : engine_(&engine),
        kernel_(std::move(kernel)),
        call_sizes_(sizes),
        lengths_(std::move(lengths)),
        sizes_(sizes_of_packed(lengths_, sizes)) {}
  Status add(const std::string& name, size_t bytes, Item::Role role, DType dtype);
  Status add_tensors();
  Status add_lengths();
  Result<SavedBytes> saved_tensors() const;
  Result<size_t> workspace_bytes() const;
  Status execute();
  Status fill(const RandomInputs& inputs, const SavedTensors& saved);
  DevicePtr at(const std::string& name) const;
  Tensors tensors() const;
  const Item* find(const std::string& name) const;

  Engine* engine_;
  std::shared_ptr<const PreparedKernel> kernel_;
  Sizes call_sizes_;
  SequenceLengths lengths_;  // with varlen
  Sizes sizes_;              // of the tensors
  std::vector<Item> items_;
};

}  // namespace lssar
