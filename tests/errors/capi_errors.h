// What the error tests of the C API share: contexts, a valid problem, a valid call, and the
// assertion of a code and a text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "lssar/lssar.h"
#include "tests/capi/run_capi.h"

// The call fails with this code, and its detail contains the text.
#define EXPECT_FAILS(call_, code, text)                                 \
  do {                                                                  \
    EXPECT_EQ((call_), LSSAR_STATUS_##code);                            \
    EXPECT_THAT(lssar_last_error_detail(), ::testing::HasSubstr(text)); \
  } while (false)

namespace lssar {

constexpr int64_t kHeads = 2, kKvHeads = 1, kQueries = 17, kKeys = 33, kDim = 32;

inline lssar_problem valid_problem() {
  lssar_problem problem = {};
  problem.struct_size = sizeof(problem);
  problem.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  problem.dtype = LSSAR_DTYPE_BF16;
  problem.head_dim = kDim;
  problem.causal = 1;
  problem.p = 15;
  problem.offset = 1.0;
  return problem;
}

inline lssar_sizes valid_sizes() { return {1, kHeads, kKvHeads, kQueries, kKeys}; }

// A call of valid_problem with memory of its own (host memory: the record device reads nothing).
class ValidCall {
 public:
  explicit ValidCall(const lssar_plan* plan) {
    call.struct_size = sizeof(call);
    call.sizes = valid_sizes();
    call.q = tensor(kHeads, kQueries);
    call.k = tensor(kKvHeads, kKeys);
    call.v = tensor(kKvHeads, kKeys);
    call.o = tensor(kHeads, kQueries);
    call.grad_o = tensor(kHeads, kQueries);
    call.grad_q = tensor(kHeads, kQueries);
    call.grad_k = tensor(kKvHeads, kKeys);
    call.grad_v = tensor(kKvHeads, kKeys);
    lssar_saved_sizes saved = {};
    EXPECT_EQ(lssar_plan_saved_sizes(plan, &call.sizes, &saved), LSSAR_STATUS_OK);
    EXPECT_EQ(lssar_plan_workspace_size(plan, &call.sizes, &call.workspace_bytes), LSSAR_STATUS_OK);
    call.saved_o = memory(saved.o);
    call.partial_o = static_cast<float*>(memory(kHeads * kQueries * kDim * sizeof(float)));
    call.saved_stats = static_cast<float*>(memory(saved.stats));
    call.saved_x = memory(saved.x);
    call.workspace = memory(call.workspace_bytes);
  }

  lssar_call call = {};

 private:
  lssar_tensor tensor(int64_t heads, int64_t length) {
    return {memory(heads * length * kDim * 2), {heads * length * kDim, length * kDim, kDim}};
  }
  // Unused room follows every block, so that a tensor a test puts in another's place overlaps that
  // one and not, by the heap's order, a third.
  void* memory(size_t bytes) {
    blocks_.emplace_back((bytes + kRoom + 15) / 16);
    return blocks_.back().data();
  }

  struct alignas(16) Block {
    unsigned char bytes[16];
  };
  static constexpr size_t kRoom = 64 << 10;
  std::vector<std::vector<Block>> blocks_;
};

}  // namespace lssar
