// Threads that run the blocks of the cpu device's launches: the pool's own, with the launching
// thread, or a caller's parallel_for. The pool's threads run on the CPUs that the launching thread
// may run on.
//
// Threads: any number may call run() at once. The pool's threads help one of them, and the others
// work alone; a parallel_for serves them all. After a fork the child starts its own threads when it
// first needs them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "device/cpu/parallel_for.h"

namespace lssar {

// Runs one block. `memory` belongs to the thread and has the launch's scratch_bytes.
using CpuBlock = void (*)(const void* params, unsigned block, void* memory);

// The blocks of one launch.
struct CpuBlocks {
  CpuBlock function = nullptr;
  const void* params = nullptr;
  uint32_t count = 0;
  size_t scratch_bytes = 0;
  uint32_t first = 0;  // number of the first block
};

class CpuPool {
 public:
  // The most indices that a parallel_for is asked to call.
  static constexpr int kMostTasks = 1024;

  // If `parallel_for` has a function, the pool starts no threads of its own.
  explicit CpuPool(const ParallelFor& parallel_for = {});
  ~CpuPool();
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  // Runs all blocks, in any order, and waits for them. At most `num_threads` threads work on them,
  // including the launching one. Every thread keeps its scratch memory for its next launch.
  // kOutOfMemory: no block ran. kDeviceError: the parallel_for broke its contract.
  // REQUIRES: num_threads >= 1.
  Status run(const CpuBlocks& blocks, int num_threads);

 private:
  struct Job;
  struct State;
  static void work(Job& job, void* scratch);
  static void worker_loop(State* state);
  State* state_of_this_process();
  void run_on_pool(Job& job, int num_threads, void* scratch);
  Status run_on_callers(Job& job, int num_threads, void* scratch) const;

  const ParallelFor parallel_for_;
  std::atomic<State*> state_ = nullptr;  // atomic, because a fork might leave a lock locked
};

// The number of CPUs that the calling thread may run on; 1 if the system does not say.
int num_available_cpus();

}  // namespace lssar
