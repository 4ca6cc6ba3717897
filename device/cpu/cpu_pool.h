// Threads that run the blocks of the cpu device's launches. The launching thread works too.
//
// Threads: run() from any number of threads at once; the pool's threads help one of them, the
// others work alone. After a fork the child makes threads of its own when it first needs them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace lssar {

// What a block is: `memory` is the thread's own, of the launch's scratch bytes.
using CpuBlock = void (*)(const void* params, unsigned block, void* memory);

class CpuPool {
 public:
  // At most `num_threads` work on a launch, the launching one among them. REQUIRES: >= 1.
  explicit CpuPool(int num_threads);
  ~CpuPool();
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Runs blocks 0 to num_blocks - 1, in no order, and waits. Every thread keeps its scratch memory
  // for its next launch. kOutOfMemory: no block ran.
  Status run(CpuBlock function, const void* params, uint32_t num_blocks, size_t scratch_bytes);

 private:
  struct Job;
  struct State;
  static void work(Job& job, void* scratch);
  static void worker_loop(State* state);
  State* state_of_this_process();

  const int num_threads_;
  std::atomic<State*> state_ = nullptr;  // no lock, which a fork might leave locked
};

// CPUs that this process may run on.
int num_available_cpus();

}  // namespace lssar
