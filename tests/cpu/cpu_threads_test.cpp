// Results do not depend on who computes them: any number of threads, several callers, a fork, the
// caller's float mode.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "device/cpu/cpu_pool.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

const Problem& problem() {
  static const Problem made = forward_problem(DType::kFp32, 64, 64, 15, true);
  return made;
}

Sizes sizes() { return sizes_with(1, 3, 1, 130, 290); }

CpuInputs inputs() {
  const RandomInputs in = random_inputs(problem(), sizes(), InputKind::kGauss, 21);
  return {in.q, in.k, in.v, in.grad_o};
}

TEST(CpuThreads, AnyNumberGivesTheSameBits) {
  LSSAR_NEEDS_CPU_KERNELS();
  const std::string target = cpu_target_names()[0];
  // Many queries, and decodes: of several chunks of keys, and of fewer heads than threads.
  for (const Sizes& of_call :
       {sizes(), sizes_with(2, 4, 2, 1, 700), sizes_with(1, 3, 1, 2, 2600)}) {
    const RandomInputs in = random_inputs(problem(), of_call, InputKind::kGauss, 22);
    const auto run = [&](int threads) {
      return run_cpu_kernel(target, problem(), of_call, {in.q, in.k, in.v}, {.threads = threads});
    };
    const auto one = run(1);
    ASSERT_TRUE(one.ok()) << one.status().to_string();
    for (const int threads : {2, 3, 4, 8}) {
      const auto many = run(threads);
      ASSERT_TRUE(many.ok()) << many.status().to_string();
      EXPECT_EQ(one->o, many->o) << threads << " threads";
      EXPECT_EQ(one->stats, many->stats) << threads << " threads";
    }
  }
}

TEST(CpuThreads, GradientsHaveTheSameBitsToo) {
  LSSAR_NEEDS_CPU_KERNELS();
  const std::string target = cpu_target_names()[0];
  const auto one = run_cpu_training(target, problem(), sizes(), inputs(), {.threads = 1});
  ASSERT_TRUE(one.ok()) << one.status().to_string();
  for (const int threads : {2, 3, 4, 5, 6, 7, 8}) {
    const auto many = run_cpu_training(target, problem(), sizes(), inputs(), {.threads = threads});
    ASSERT_TRUE(many.ok()) << many.status().to_string();
    EXPECT_EQ(one->saved_x, many->saved_x) << threads << " threads";
    EXPECT_EQ(one->dq, many->dq) << threads << " threads";
    EXPECT_EQ(one->dk, many->dk) << threads << " threads";
    EXPECT_EQ(one->dv, many->dv) << threads << " threads";
  }
}

TEST(CpuThreads, AChildComputesAfterAFork) {
  LSSAR_NEEDS_CPU_KERNELS();
  const std::string target = cpu_target_names()[0];
  const auto before = run_cpu_kernel(target, problem(), sizes(), inputs(), {.threads = 3});
  ASSERT_TRUE(before.ok()) << before.status().to_string();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto after = run_cpu_kernel(target, problem(), sizes(), inputs(), {.threads = 3});
    _exit(after.ok() && after->o == before->o ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

#if defined(__x86_64__)
// A mode that a caller may have set for itself: denormal numbers count as zeros, and rounding is to
// zero.
TEST(CpuThreads, TheCallersFloatModeDoesNotMatter) {
  LSSAR_NEEDS_CPU_KERNELS();
  const std::string target = cpu_target_names()[0];
  const auto usual = run_cpu_kernel(target, problem(), sizes(), inputs());
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040u | 0x6000u);
  const auto odd = run_cpu_kernel(target, problem(), sizes(), inputs());
  const unsigned after = _mm_getcsr();
  _mm_setcsr(mode);
  ASSERT_TRUE(usual.ok() && odd.ok());
  EXPECT_EQ(usual->o, odd->o);
  EXPECT_EQ(after & 0xe040u, (mode | 0xe040u) & 0xe040u) << "the caller's mode is restored";
}
#endif

struct Counts {
  std::array<std::atomic<int>, 1000> of_block{};
  std::atomic<int> without_memory = 0;
};

void count_block(const void* params, unsigned block, void* memory) {
  Counts& counts = **static_cast<Counts* const*>(params);
  ++counts.of_block[block];
  if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % 64 != 0) ++counts.without_memory;
  static_cast<char*>(memory)[4095] = 1;
}

// Several callers at once: one has the pool's threads and the others none. Each block runs once.
TEST(CpuPool, EveryBlockRunsOnceForEveryCaller) {
  CpuPool pool;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&pool] {
      for (int round = 0; round < 50; ++round) {
        Counts counts;
        Counts* params = &counts;
        const auto n = static_cast<uint32_t>(round * 20);
        EXPECT_TRUE(pool.run({count_block, &params, n, 4096}, 4).ok());
        for (uint32_t b = 0; b < 1000; ++b) EXPECT_EQ(counts.of_block[b], b < n ? 1 : 0);
        EXPECT_EQ(counts.without_memory, 0);
      }
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(CpuPool, MemoryThatIsNotThereIsAnError) {
  CpuPool pool;
  Counts counts;
  Counts* params = &counts;
  const Status status = pool.run({count_block, &params, 3, size_t{1} << 60}, 1);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(counts.of_block[0], 0);
}

// Every thread that runs blocks, by its id.
struct Runners {
  std::mutex mutex;
  std::set<std::thread::id> threads;
};

void note_thread(const void* params, unsigned, void*) {
  Runners& runners = **static_cast<Runners* const*>(params);
  const std::lock_guard<std::mutex> lock(runners.mutex);
  runners.threads.insert(std::this_thread::get_id());
}

TEST(CpuPool, NoMoreThreadsWorkThanALaunchMayHave) {
  CpuPool pool;
  for (const int threads : {4, 2, 1, 3}) {
    Runners runners;
    Runners* params = &runners;
    EXPECT_TRUE(pool.run({note_thread, &params, 2000, 64}, threads).ok());
    EXPECT_LE(static_cast<int>(runners.threads.size()), threads);
  }
}

}  // namespace
}  // namespace lssar
