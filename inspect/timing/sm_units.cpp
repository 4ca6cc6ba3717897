#include "inspect/timing/sm_units.h"

#include <algorithm>

namespace lssar {

bool SmUnits::accepts(const TimedInstruction& in, double now) const {
  switch (in.pipe) {
    case SmPipe::kFma:
      return std::min(fma_free_[0], fma_free_[1]) <= now;
    case SmPipe::kFmaHeavy:
      return fma_free_[0] <= now;
    case SmPipe::kAlu:
      return alu_free_ <= now;
    case SmPipe::kUniform:
      return uniform_free_ <= now;
    case SmPipe::kSpecial:
      return special_free_ - now <= constants_.special_queue;
    case SmPipe::kShared:
      return shared_free_ - now <= constants_.shared_queue;
    case SmPipe::kMemory:
      return memory_free_ <= now;
    case SmPipe::kTensor:
    case SmPipe::kNone:
      return true;
  }
  return true;
}

double SmUnits::start(const TimedInstruction& in, double now) {
  switch (in.pipe) {
    case SmPipe::kFma: {
      // The second pipe first: integer multiply-adds need the other one.
      double* const free = fma_free_[1] <= now ? &fma_free_[1] : &fma_free_[0];
      return start_in(free, now, in.clocks);
    }
    case SmPipe::kFmaHeavy:
      return start_in(&fma_free_[0], now, in.clocks);
    case SmPipe::kAlu:
      return start_in(&alu_free_, now, in.clocks);
    case SmPipe::kUniform:
      return start_in(&uniform_free_, now, in.clocks);
    case SmPipe::kSpecial:
      return start_in(&special_free_, now, in.clocks);
    case SmPipe::kMemory:
      return start_in(&memory_free_, now, in.clocks);
    case SmPipe::kShared:
      return start_in(&shared_free_, now, taking(in.clocks));
    case SmPipe::kTensor:
      // HMMA runs between two products of the queue (assumed): it delays those that follow.
      tensor_free_ = std::max(tensor_free_, now) + in.clocks;
      return now;
    case SmPipe::kNone:
      return now;
  }
  return now;
}

double SmUnits::start_in(double* free, double now, int clocks) {
  const double start = std::max(*free, now);
  *free = start + clocks;
  return start;
}

int SmUnits::taking(int clocks) {
  taken_ += clocks;
  return clocks;
}

int SmUnits::waiting_products(int warp, double now) const {
  return int(std::count_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.warp == warp && waiting.start > now;
  }));
}

double SmUnits::start_product(const TimedInstruction& in, int warp, double now) {
  const double start = std::max(tensor_free_, now + constants_.tensor_start);
  // Loads go first. While the tensor core was idle they had all of shared memory.
  taken_ = std::max(0.0, taken_ - (start - tensor_free_));
  const double reading = double(in.operand_bytes) / constants_.shared_bytes;
  const double clocks = std::max(double(in.clocks), reading + taken_);
  taken_ = std::max(0.0, taken_ - (clocks - reading));
  tensor_free_ = start + clocks;
  while (!waiting_.empty() && waiting_.front().start <= now) waiting_.pop_front();
  waiting_.push_back({warp, start});
  return tensor_free_;
}

}  // namespace lssar
