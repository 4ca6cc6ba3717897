// A value that a thread has while an object lives.
#pragma once

namespace lssar {

// The innermost object's value counts; 0 without one. Tag tells the values of one type apart.
template <class Tag, class T>
class ThreadValue {
 public:
  explicit ThreadValue(T value) : outer_(current()) { current() = value; }
  ~ThreadValue() { current() = outer_; }
  ThreadValue(const ThreadValue&) = delete;
  ThreadValue& operator=(const ThreadValue&) = delete;

  static T get() { return current(); }

 private:
  static T& current() {
    thread_local T value = 0;
    return value;
  }
  T outer_;
};

// How many threads a device on the CPU may use for launches of the calling thread. 0: as many as
// the thread's CPUs.
using ThreadLimit = ThreadValue<struct ThreadLimitTag, int>;

// Multiply-adds of the call that the thread's launches belong to: a device on the CPU takes few
// threads for little work. 0: not known.
using CallWork = ThreadValue<struct CallWorkTag, double>;

}  // namespace lssar
