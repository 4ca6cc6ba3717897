#include "device/cpu/cpu_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "device/default_float_mode.h"

namespace lssar {
namespace {

constexpr size_t kLineBytes = 64;

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Scratch = std::unique_ptr<void, FreeMemory>;

// This thread's scratch memory. Null if there is not enough memory.
void* scratch_of_thread(size_t bytes) {
  thread_local Scratch kept;
  thread_local size_t kept_bytes = 0;
  const size_t wanted = (std::max<size_t>(bytes, 1) + kLineBytes - 1) / kLineBytes * kLineBytes;
  if (kept_bytes >= wanted) return kept.get();
  kept.reset(std::aligned_alloc(kLineBytes, wanted));
  kept_bytes = kept == nullptr ? 0 : wanted;
  return kept.get();
}

}  // namespace

struct CpuPool::Job {
  explicit Job(const CpuBlocks& of) : blocks(of) {}
  const CpuBlocks blocks;
  std::atomic<uint64_t> next = 0;
  cpu_set_t cpus;  // where the pool's threads run it; empty: not known
  int wanted = 0;  // threads of the pool that may still join; guarded by the state's mutex
};

// The state of one process. After a fork the child makes its own.
struct CpuPool::State {
  const pid_t process = getpid();
  std::mutex launch_mutex;  // held by the launch that the threads help
  std::mutex mutex;         // guards what follows
  std::condition_variable wake, done;
  Job* job = nullptr;
  int working = 0;
  bool stopping = false;
  std::vector<std::thread> threads;
};

CpuPool::CpuPool(const ParallelFor& parallel_for) : parallel_for_(parallel_for) {}

CpuPool::~CpuPool() {
  State* const state = state_.load();
  if (state == nullptr || state->process != getpid()) return;  // its threads are the parent's
  {
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->stopping = true;
  }
  state->wake.notify_all();
  for (std::thread& thread : state->threads) thread.join();
  delete state;
}

CpuPool::State* CpuPool::state_of_this_process() {
  State* known = state_.load();
  if (known != nullptr && known->process == getpid()) return known;
  // The parent's state is never touched or freed, because its mutex may be locked for ever.
  auto fresh = std::make_unique<State>();
  if (state_.compare_exchange_strong(known, fresh.get())) return fresh.release();
  return known;  // another thread was faster
}

// Runs the last blocks first. With a causal mask the last rows see the most keys, so at the end all
// threads would wait for them.
void CpuPool::work(Job& job, void* scratch) {
  const DefaultFloatMode mode;
  const CpuBlocks& blocks = job.blocks;
  for (;;) {
    const uint64_t taken = job.next.fetch_add(1, std::memory_order_relaxed);
    if (taken >= blocks.count) return;
    const uint64_t block = blocks.first + blocks.count - 1 - taken;
    blocks.function(blocks.params, static_cast<unsigned>(block), scratch);
  }
}

void CpuPool::worker_loop(State* state) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  std::unique_lock<std::mutex> lock(state->mutex);
  for (;;) {
    state->wake.wait(
        lock, [&] { return state->stopping || (state->job != nullptr && state->job->wanted > 0); });
    if (state->stopping) return;
    Job& job = *state->job;
    --job.wanted;
    ++state->working;
    lock.unlock();
    if (CPU_COUNT(&job.cpus) > 0 && !CPU_EQUAL(&job.cpus, &mine)) {
      mine = job.cpus;
      // If it fails because a CPU has gone, the thread stays where it was.
      (void)sched_setaffinity(0, sizeof(mine), &mine);
    }
    // If there is no memory for this thread, the others do its part.
    if (void* const scratch = scratch_of_thread(job.blocks.scratch_bytes)) work(job, scratch);
    lock.lock();
    if (--state->working == 0) state->done.notify_all();
  }
}

Status CpuPool::run(const CpuBlocks& blocks, int num_threads) {
  void* const scratch = scratch_of_thread(blocks.scratch_bytes);
  if (scratch == nullptr)
    return out_of_memory(
        fmt::format("cpu device: no memory for {} bytes of scratch space", blocks.scratch_bytes));
  Job job(blocks);
  const auto threads = static_cast<int>(std::min<uint64_t>(num_threads, blocks.count));
  if (threads <= 1) {
    work(job, scratch);
  } else if (parallel_for_.run != nullptr) {
    return run_on_callers(job, std::min(threads, kMostTasks), scratch);
  } else {
    run_on_pool(job, threads, scratch);
  }
  return {};
}

void CpuPool::run_on_pool(Job& job, int num_threads, void* scratch) {
  State* const state = state_of_this_process();
  const std::unique_lock<std::mutex> launch(state->launch_mutex, std::try_to_lock);
  if (!launch.owns_lock()) return work(job, scratch);
  job.wanted = num_threads - 1;
  if (sched_getaffinity(0, sizeof(job.cpus), &job.cpus) != 0) CPU_ZERO(&job.cpus);
  {
    const std::lock_guard<std::mutex> lock(state->mutex);
    try {
      while (static_cast<int>(state->threads.size()) < num_threads - 1)
        state->threads.emplace_back(worker_loop, state);
    } catch (const std::system_error&) {
      // No more threads are available; the existing ones do the work.
    }
    state->job = &job;
  }
  // Wake only as many as the job wants: a thread that has nothing to do takes a CPU from one that
  // has.
  for (int i = 1; i < num_threads; ++i) state->wake.notify_one();
  work(job, scratch);
  std::unique_lock<std::mutex> lock(state->mutex);
  state->job = nullptr;
  state->done.wait(lock, [&] { return state->working == 0; });
}

// Each index runs blocks until none is left. So the caller's threads need not be as many as the
// indices, and a slow thread delays nobody.
Status CpuPool::run_on_callers(Job& job, int num_threads, void* scratch) const {
  struct Work {
    Job& job;
    const int64_t n;
    std::array<std::atomic<bool>, kMostTasks> called{};
    std::atomic<int> num_called = 0, num_wrong = 0;
  } work_of_all{job, num_threads};
  const auto task = [](void* work, int64_t index) {
    Work& all = *static_cast<Work*>(work);
    if (index < 0 || index >= all.n || all.called[static_cast<size_t>(index)].exchange(true)) {
      ++all.num_wrong;
      return;
    }
    if (void* const memory = scratch_of_thread(all.job.blocks.scratch_bytes))
      CpuPool::work(all.job, memory);
    ++all.num_called;
  };
  parallel_for_.run(parallel_for_.user, num_threads, task, &work_of_all);
  if (work_of_all.num_called != num_threads || work_of_all.num_wrong != 0)
    return device_error(fmt::format(
        "parallel_for: with n = {} it called {} indices, and made {} calls with an "
        "index that is out of range or was called before: it must call each index "
        "from 0 to {} once, and wait for all of them",
        num_threads, work_of_all.num_called.load(), work_of_all.num_wrong.load(), num_threads - 1));
  // Nothing is left, unless threads had no memory.
  work(job, scratch);
  return {};
}

int num_available_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 1;
  return std::max(CPU_COUNT(&cpus), 1);
}

}  // namespace lssar
