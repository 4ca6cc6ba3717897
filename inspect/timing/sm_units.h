// The units that the warps of one scheduler share: pipes, the tensor core's queue, and a quarter of
// the SM's shared memory.
//
// Internal to inspect/. Threads: one SmUnits belongs to one thread.
#pragma once

#include <deque>

#include "inspect/timing/timed_instruction.h"

namespace lssar {

class SmUnits {
 public:
  explicit SmUnits(const TimingConstants& constants) : constants_(constants) {}

  // Whether the instruction's unit takes it at `now`.
  bool accepts(const TimedInstruction& in, double now) const;
  // When its work begins. REQUIRES: accepts(in, now), and `in` is no HGMMA.
  double start(const TimedInstruction& in, double now);

  // Products of the warp that have been issued and have not started.
  int waiting_products(int warp, double now) const;
  // Queues an HGMMA and returns when it ends.
  double start_product(const TimedInstruction& in, int warp, double now);

 private:
  static double start_in(double* free, double now, int clocks);
  int taking(int clocks);  // of shared memory, from products

  TimingConstants constants_;
  double fma_free_[2] = {};
  double alu_free_ = 0, uniform_free_ = 0, special_free_ = 0, memory_free_ = 0, shared_free_ = 0;
  double tensor_free_ = 0;
  // Clocks of shared memory that loads have taken since products last had it, and that they still
  // lack.
  double taken_ = 0;
  struct Waiting {
    int warp;
    double start;
  };
  std::deque<Waiting> waiting_;
};

}  // namespace lssar
