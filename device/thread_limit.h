// How many threads a device on the CPU may use for launches of the calling thread.
#pragma once

namespace lssar {

// In force on its thread as long as it lives; the innermost counts. 0: as many as the thread's
// CPUs.
class ThreadLimit {
 public:
  explicit ThreadLimit(int num_threads) : outer_(current()) { current() = num_threads; }
  ~ThreadLimit() { current() = outer_; }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

  static int get() { return current(); }

 private:
  static int& current() {
    thread_local int limit = 0;
    return limit;
  }
  int outer_;
};

}  // namespace lssar
