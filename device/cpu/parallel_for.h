// A caller's own threads, in place of the cpu device's pool.
#pragma once

#include <cstdint>

namespace lssar {

// The caller's `run` calls task(work, i) once for every i in [0, n), in any order and on any
// threads, and returns when all calls have returned. include/lssar/lssar.h has the whole contract
// (lssar_parallel_for).
struct ParallelFor {
  using Task = void (*)(void* work, int64_t index);
  void (*run)(void* user, int64_t n, Task task, void* work) = nullptr;  // null: the pool's threads
  void* user = nullptr;
};

}  // namespace lssar
