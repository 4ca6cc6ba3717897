// Threads that run the blocks of the cpu device's launches. The launching thread works too.
//
// Threads: any number may call run() at once. The pool's threads help one of them, and the others
// work alone. After a fork the child starts its own threads when it first needs them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace lssar {

// Runs one block. `memory` belongs to the thread and has the launch's scratch_bytes.
using CpuBlock = void (*)(const void* params, unsigned block, void* memory);

class CpuPool {
 public:
  // At most `num_threads` threads work on a launch, including the launching one. REQUIRES:
  // num_threads >= 1.
  explicit CpuPool(int num_threads);
  ~CpuPool();
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Runs blocks 0 to num_blocks - 1 in any order and waits for them. Every thread keeps its scratch
  // memory for its next launch. kOutOfMemory: no block ran.
  Status run(CpuBlock function, const void* params, uint32_t num_blocks, size_t scratch_bytes);

 private:
  struct Job;
  struct State;
  static void work(Job& job, void* scratch);
  static void worker_loop(State* state);
  State* state_of_this_process();

  const int num_threads_;
  std::atomic<State*> state_ = nullptr;  // atomic, because a fork might leave a lock locked
};

// The number of CPUs that this process may run on.
int num_available_cpus();

}  // namespace lssar
