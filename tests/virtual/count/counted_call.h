// What the tests that count the project's own kernels share: a call through the engine.
//
// Threads: for the main thread of a test.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reference/numerics.h"
#include "reference/random_inputs.h"
#include "runtime/engine.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {

inline std::map<std::string, LaunchCounters> counts_by_kernel(const Device& device) {
  std::map<std::string, LaunchCounters> by_name;
  for (const KernelCounters& kernel : device.kernel_counters())
    by_name[kernel.kernel] = kernel.counters;
  return by_name;
}

// Device memory of a call, freed with it. dv = d. For a backward as many keys and kv heads as
// queries and heads.
class Call {
 public:
  Call(Engine& engine, const Problem& problem, const Sizes& sizes,
       InputKind kind = InputKind::kGauss)
      : engine_(engine), problem_(problem), sizes_(sizes) {
    const RandomInputs inputs = random_inputs(problem, sizes_, kind, 1);
    tensors_.q = upload(inputs.q);
    tensors_.k = upload_keys(inputs.k);
    tensors_.v = upload_keys(inputs.v);
    tensors_.grad_o = upload(inputs.grad_o);
    for (Tensor* t : {&tensors_.o, &tensors_.grad_q, &tensors_.grad_k, &tensors_.grad_v}) {
      *t = upload(inputs.q);
    }
    Problem training = problem;
    training.pass = Pass::kBackward;
    const Result<SavedBytes> saved = saved_bytes(training, Schedule{}, sizes_);
    EXPECT_TRUE(saved.ok());
    if (!saved.ok()) return;
    tensors_.saved_o = allocate(saved->o);
    tensors_.saved_stats = allocate(saved->stats);
    tensors_.saved_x = allocate(saved->x);
  }
  ~Call() {
    for (const DevicePtr buffer : buffers_) EXPECT_TRUE(engine_.device().free(buffer).ok());
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void run(Pass pass, const Schedule& schedule) {
    Problem problem = problem_;
    problem.pass = pass;
    const auto kernel = engine_.prepare(problem, schedule);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    const auto layout = workspace_layout(problem, (*kernel)->schedule, sizes_);
    ASSERT_TRUE(layout.ok()) << layout.status().to_string();
    const Workspace workspace = {allocate(layout->total_bytes), layout->total_bytes};
    if (is_of_range(pass)) tensors_.row_stats = tensors_.saved_stats;
    const Status status = engine_.execute(**kernel, sizes_, tensors_, workspace, nullptr);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

 private:
  DevicePtr allocate(size_t bytes) {
    const Result<DevicePtr> buffer = engine_.device().allocate(bytes);
    EXPECT_TRUE(buffer.ok());
    if (!buffer.ok()) return 0;
    buffers_.push_back(*buffer);
    return *buffer;
  }
  Tensor upload(const std::vector<float>& values) {
    return upload(values, sizes_.heads, sizes_.seq_q);
  }
  Tensor upload_keys(const std::vector<float>& values) {
    return upload(values, sizes_.kv_heads, sizes_.seq_k);
  }
  Tensor upload(const std::vector<float>& values, int64_t heads, int64_t length) {
    const std::vector<std::byte> encoded = pack(problem_.dtype, values);
    const DevicePtr data = allocate(encoded.size());
    EXPECT_TRUE(engine_.device().copy_to_device(data, encoded.data(), encoded.size()).ok());
    return contiguous_tensor(data, heads, length, problem_.head_dim);
  }

  Engine& engine_;
  const Problem problem_;
  const Sizes sizes_;
  Tensors tensors_;
  std::vector<DevicePtr> buffers_;
};

}  // namespace lssar::test
