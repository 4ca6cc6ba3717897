#include "device/cpu/cpu_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "device/default_float_mode.h"
#include "device/thread_limit.h"

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
  CpuBlock function = nullptr;
  const void* params = nullptr;
  uint32_t num_blocks = 0;
  size_t scratch_bytes = 0;
  std::atomic<uint64_t> next = 0;
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

CpuPool::CpuPool(int num_threads) : num_threads_(num_threads) {}

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
  for (;;) {
    const uint64_t taken = job.next.fetch_add(1, std::memory_order_relaxed);
    if (taken >= job.num_blocks) return;
    job.function(job.params, static_cast<unsigned>(job.num_blocks - 1 - taken), scratch);
  }
}

void CpuPool::worker_loop(State* state) {
  std::unique_lock<std::mutex> lock(state->mutex);
  for (;;) {
    state->wake.wait(
        lock, [&] { return state->stopping || (state->job != nullptr && state->job->wanted > 0); });
    if (state->stopping) return;
    Job& job = *state->job;
    --job.wanted;
    ++state->working;
    lock.unlock();
    // If there is no memory for this thread, the others do its part.
    if (void* const scratch = scratch_of_thread(job.scratch_bytes)) work(job, scratch);
    lock.lock();
    if (--state->working == 0) state->done.notify_all();
  }
}

Status CpuPool::run(CpuBlock function, const void* params, uint32_t num_blocks,
                    size_t scratch_bytes) {
  int threads = static_cast<int>(std::min<uint64_t>(num_threads_, num_blocks));
  if (const int limit = ThreadLimit::get(); limit > 0) threads = std::min(threads, limit);
  threads = std::max(threads, 1);
  State* const state = threads > 1 ? state_of_this_process() : nullptr;
  std::unique_lock<std::mutex> launch;
  if (state != nullptr) launch = std::unique_lock(state->launch_mutex, std::try_to_lock);
  if (!launch.owns_lock()) threads = 1;

  void* const scratch = scratch_of_thread(scratch_bytes);
  if (scratch == nullptr)
    return out_of_memory(
        fmt::format("cpu device: no memory for {} bytes of scratch space", scratch_bytes));
  Job job;
  job.function = function;
  job.params = params;
  job.num_blocks = num_blocks;
  job.scratch_bytes = scratch_bytes;
  job.wanted = threads - 1;
  if (threads == 1) {
    work(job, scratch);
    return {};
  }
  {
    const std::lock_guard<std::mutex> lock(state->mutex);
    try {
      while (static_cast<int>(state->threads.size()) < threads - 1)
        state->threads.emplace_back(worker_loop, state);
    } catch (const std::system_error&) {
      // No more threads are available; the existing ones do the work.
    }
    state->job = &job;
  }
  state->wake.notify_all();
  work(job, scratch);
  std::unique_lock<std::mutex> lock(state->mutex);
  state->job = nullptr;
  state->done.wait(lock, [&] { return state->working == 0; });
  return {};
}

int num_available_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 1;
  return std::max(CPU_COUNT(&cpus), 1);
}

}  // namespace lssar
