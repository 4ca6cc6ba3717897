// A call of made-up tensors on a fake device, for the tests of the executor.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/tensor_map_codec.h"
#include "runtime/executor.h"
#include "tests/capi/fakes.h"

namespace lssar {

class ExecutorTest : public testing::Test {
 protected:
  // q, k, ... contiguous at addresses 1 MiB apart; the parts of the workspace 64 KiB apart.
  void make_call(Pass pass, DType dtype, const Sizes& sizes, int dim = 128, int dim_v = 64) {
    problem_.causal = true;
    problem_.pass = pass;
    problem_.dtype = dtype;
    problem_.head_dim = dim;
    problem_.head_dim_v = dim_v;
    sizes_ = sizes;
    DevicePtr next = 0;
    const auto of_queries = [&](int64_t columns) {
      return contiguous_tensor(next += 1 << 20, sizes.heads, sizes.seq_q, columns);
    };
    const auto of_keys = [&](int64_t columns) {
      return contiguous_tensor(next += 1 << 20, sizes.kv_heads, sizes.seq_k, columns);
    };
    tensors_.q = of_queries(dim);
    tensors_.k = of_keys(dim);
    tensors_.v = of_keys(dim_v);
    tensors_.o = of_queries(dim_v);
    tensors_.grad_o = of_queries(dim_v);
    tensors_.grad_q = of_queries(dim);
    tensors_.grad_k = of_keys(dim);
    tensors_.grad_v = of_keys(dim_v);
    layout_.k_inv_norm = 1 << 16;
    layout_.q_inv_norm = 2 << 16;
    layout_.row_constants = 3 << 16;
    layout_.grad_q_sum = 4 << 16;
  }

  CheckedCall call() const { return {problem_, sizes_, tensors_, kWorkspace, layout_}; }

  // A step over 64 queries or keys, with maps.
  static LaunchStep step(const std::string& entry, GridRows rows, std::vector<MapSpec> maps) {
    LaunchStep step;
    step.entry = entry;
    step.grid_rows = rows;
    step.rows_per_block = 64;
    step.threads = 128;
    step.maps = std::move(maps);
    return step;
  }

  Status launch(const std::vector<LaunchStep>& steps) {
    std::vector<StepFunction> functions;
    for (const LaunchStep& s : steps) functions.push_back(*module_.function(s.entry));
    return launch_steps(device_, steps, functions, call(), nullptr);
  }

  static TensorMapRequest decoded(const lssar_device::TensorMap& map) {
    TensorMapRequest request;
    EXPECT_TRUE(vdev::decode_tensor_map(reinterpret_cast<const uint8_t*>(map.words), request));
    return request;
  }

  static constexpr DevicePtr kWorkspace = 64 << 20;
  Problem problem_;
  Sizes sizes_;
  Tensors tensors_;
  WorkspaceLayout layout_;
  FakeDevice device_;
  FakeModule module_;
};

}  // namespace lssar
