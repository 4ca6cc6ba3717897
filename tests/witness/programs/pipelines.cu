// CUTLASS's pipelines by themselves: blocks of a cluster that complete each other's transactions,
// stages that go from threads to threads, and warp groups that take turns.
#define CUTLASS_UNIT_TEST_PIPELINE 1  // a commit completes the bytes, as if they had been copied

#include <cute/tensor.hpp>

#include <cutlass/cluster_launch.hpp>
#include <cutlass/pipeline/pipeline.hpp>

#include "case.h"

namespace witness::pipelines {

using namespace cute;

constexpr int kGroup = 128;  // threads of a warp group; two in every block
constexpr int kStages = 3;
constexpr int kRounds = 10;

// Counts for every consumer the stages that both blocks filled.
__global__ void __launch_bounds__(2 * kGroup) transactions(int* counts) {
  using Pipeline = cutlass::PipelineTmaAsync<kStages>;
  constexpr uint32_t kBytes = 256;  // of each block, for both
  __shared__ __align__(16) unsigned char bytes[sizeof(typename Pipeline::SharedStorage)];
  auto& storage = reinterpret_cast<typename Pipeline::SharedStorage&>(bytes);
  const bool is_producer = threadIdx.x < kGroup;
  typename Pipeline::Params params;
  params.transaction_bytes = 2 * kBytes;
  params.role =
      is_producer ? Pipeline::ThreadCategory::Producer : Pipeline::ThreadCategory::Consumer;
  params.is_leader = threadIdx.x == 0;
  params.num_consumers = kGroup;
  Pipeline pipeline(storage, params, Shape<_2, _1, _1>{});
  cluster_arrive_relaxed();
  cluster_wait();
  if (is_producer) {
    if (threadIdx.x >= 32) return;
    auto state = cutlass::make_producer_start_state<Pipeline>();
    for (int round = 0; round < kRounds; ++round, ++state) {
      pipeline.producer_acquire(state);
      pipeline.producer_commit(state, kBytes);
    }
    pipeline.producer_tail(state);
    return;
  }
  typename Pipeline::PipelineState state;
  int count = 0;
  for (int round = 0; round < kRounds; ++round, ++state) {
    pipeline.consumer_wait(state);
    ++count;
    pipeline.consumer_release(state);
  }
  counts[blockIdx.x * kGroup + threadIdx.x - kGroup] = count;
}

__host__ __device__ constexpr int value_of(int round, int thread) { return 7 * round + thread; }
__host__ __device__ constexpr int folded(int sum, int value) {
  return (3 * sum + value) % 99991;  // float holds it, as Matrix wants
}

// Every consumer folds what another lane of the producers wrote.
__global__ void __launch_bounds__(2 * kGroup) stages(int* sums) {
  using Pipeline = cutlass::PipelineAsync<kStages>;
  __shared__ __align__(16) unsigned char bytes[sizeof(typename Pipeline::SharedStorage)];
  auto& storage = reinterpret_cast<typename Pipeline::SharedStorage&>(bytes);
  __shared__ int values[kStages][kGroup];
  const bool is_producer = threadIdx.x < kGroup;
  const int thread = threadIdx.x % kGroup;
  typename Pipeline::Params params;
  params.role =
      is_producer ? Pipeline::ThreadCategory::Producer : Pipeline::ThreadCategory::Consumer;
  params.producer_arv_count = kGroup;
  params.consumer_arv_count = kGroup;
  Pipeline pipeline(storage, params);
  __syncthreads();
  if (is_producer) {
    auto state = cutlass::make_producer_start_state<Pipeline>();
    for (int round = 0; round < kRounds; ++round, ++state) {
      pipeline.producer_acquire(state);
      values[state.index()][thread] = value_of(round, thread);
      pipeline.producer_commit(state);
    }
    return;
  }
  typename Pipeline::PipelineState state;
  int sum = 0;
  for (int round = 0; round < kRounds; ++round, ++state) {
    pipeline.consumer_wait(state);
    sum = folded(sum, values[state.index()][kGroup - 1 - thread]);
    pipeline.consumer_release(state);
  }
  sums[thread] = sum;
}

// Two warp groups fold into the same words, in turn.
__global__ void __launch_bounds__(2 * kGroup) turns(int* sums) {
  constexpr int kDepth = 2;
  using Order = cutlass::OrderedSequenceBarrier<kDepth, 2>;
  __shared__ __align__(16) unsigned char bytes[sizeof(typename Order::SharedStorage)];
  auto& storage = reinterpret_cast<typename Order::SharedStorage&>(bytes);
  __shared__ int words[kDepth][kGroup];
  const int group = threadIdx.x / kGroup, thread = threadIdx.x % kGroup;
  if (group == 0) words[0][thread] = words[1][thread] = 0;
  typename Order::Params params;
  params.group_id = group;
  params.group_size = kGroup;
  Order order(storage, params);
  __syncthreads();
  for (int round = 0; round < kRounds; ++round) {
    for (int depth = 0; depth < kDepth; ++depth) {
      order.wait();
      int& word = words[depth][group == 0 ? thread : kGroup - 1 - thread];
      word = folded(word, group + depth);
      order.arrive();
    }
  }
  __syncthreads();
  if (group == 0) sums[thread] = words[0][thread] * 2 + words[1][thread];
}

std::string check(const Matrix<int>& sums, int expected_of_thread(int)) {
  cudaDeviceSynchronize();
  if (const std::string error = runtime_error(); !error.empty()) return error;
  for (int row = 0; row < sums.rows(); ++row) {
    for (int thread = 0; thread < kGroup; ++thread) {
      if (sums.at(row, thread) == expected_of_thread(thread)) continue;
      return "thread " + std::to_string(thread) + " has " + std::to_string(sums.at(row, thread)) +
             ", not " + std::to_string(expected_of_thread(thread));
    }
  }
  return runtime_error();
}

std::string run_transactions() {
  Matrix<int> counts(2, kGroup, Order::kRows);
  int* argument = counts.device();
  void* arguments[] = {&argument};
  cutlass::ClusterLauncher::launch({2, 1, 1}, {2, 1, 1}, {2 * kGroup, 1, 1}, 0, nullptr,
                                   reinterpret_cast<const void*>(transactions), arguments);
  counts.fetch();
  return check(counts, [](int) { return kRounds; });
}

std::string run_stages() {
  Matrix<int> sums(1, kGroup, Order::kRows);
  stages<<<1, 2 * kGroup>>>(sums.device());
  sums.fetch();
  return check(sums, [](int thread) {
    int sum = 0;
    for (int round = 0; round < kRounds; ++round) {
      sum = folded(sum, value_of(round, kGroup - 1 - thread));
    }
    return sum;
  });
}

std::string run_turns() {
  Matrix<int> sums(1, kGroup, Order::kRows);
  turns<<<1, 2 * kGroup>>>(sums.device());
  sums.fetch();
  return check(sums, [](int) {
    int words[2] = {0, 0};
    for (int round = 0; round < kRounds; ++round) {
      for (int depth = 0; depth < 2; ++depth) {
        for (int group = 0; group < 2; ++group) words[depth] = folded(words[depth], group + depth);
      }
    }
    return words[0] * 2 + words[1];
  });
}

const Case kCases[] = {
    {"transactions, cluster 2x1", run_transactions},
    {"stages", run_stages},
    {"turns", run_turns},
};

}  // namespace witness::pipelines

witness::CaseList witness_cases() {
  using witness::pipelines::kCases;
  return {kCases, sizeof kCases / sizeof kCases[0]};
}
