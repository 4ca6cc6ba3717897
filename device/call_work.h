// How much work the calling thread's launches are. A device on the CPU takes few threads for
// little.
#pragma once

namespace lssar {

// Multiply-adds of the call that the launches of its thread belong to, as long as it lives; the
// innermost counts. 0: not known.
class CallWork {
 public:
  explicit CallWork(double multiply_adds) : outer_(current()) { current() = multiply_adds; }
  ~CallWork() { current() = outer_; }
  CallWork(const CallWork&) = delete;
  CallWork& operator=(const CallWork&) = delete;

  static double get() { return current(); }

 private:
  static double& current() {
    thread_local double multiply_adds = 0;
    return multiply_adds;
  }
  double outer_;
};

}  // namespace lssar
