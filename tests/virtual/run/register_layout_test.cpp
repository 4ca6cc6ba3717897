// A register that an asynchronous operation uses keeps its place until the operation was waited
// for.
#include "virtual/program/register_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lssar::vdev {
namespace {

// Instructions one after the other; registers are 32 bits wide.
class Kernel {
 public:
  // Returns the instruction's index.
  uint32_t add(const std::vector<uint32_t>& writes, const std::vector<uint32_t>& reads) {
    access_.writes.insert(access_.writes.end(), writes.begin(), writes.end());
    access_.reads.insert(access_.reads.end(), reads.begin(), reads.end());
    access_.writes_begin.push_back(static_cast<uint32_t>(access_.writes.size()));
    access_.reads_begin.push_back(static_cast<uint32_t>(access_.reads.size()));
    access_.in_place.push_back(false);
    access_.waits_for_async.push_back(false);
    flow_.emplace_back();
    for (const uint32_t r : writes) count_ = std::max(count_, r + 1);
    return static_cast<uint32_t>(flow_.size()) - 1;
  }
  void add_async(const std::vector<uint32_t>& registers) {
    add(registers, registers);
    access_.async_registers = registers;
  }
  uint32_t add_wait() {
    const uint32_t i = add({}, {});
    access_.waits_for_async[i] = true;
    return i;
  }
  void add_branch_back(uint32_t target) {
    const uint32_t i = add({}, {});
    flow_[i].terminator = Terminator::kJump;
    flow_[i].guarded = true;
    flow_[i].target = target;
  }
  std::vector<uint32_t> places() const {
    ParsedKernel kernel;
    kernel.registers.assign(count_, RegClass::k32);
    Result<RegisterLayout> layout =
        lay_out_registers(kernel, build_control_flow(flow_), access_, 0);
    EXPECT_TRUE(layout.ok());
    return layout->offset;
  }

 private:
  RegisterAccess access_;
  std::vector<InstructionFlow> flow_;
  uint32_t count_ = 0;
};

TEST(RegisterLayoutTest, PlacesAreSharedByThoseThatAreNeverLiveTogether) {
  Kernel kernel;
  kernel.add({0}, {});
  kernel.add({}, {0});
  kernel.add({1}, {});
  kernel.add({}, {1});
  const std::vector<uint32_t> places = kernel.places();
  EXPECT_EQ(places[0], places[1]);
}

TEST(RegisterLayoutTest, AnOperandInFlightKeepsItsPlaceUntilTheWait) {
  Kernel kernel;
  kernel.add({0}, {});
  kernel.add_async({0});
  kernel.add({1}, {});
  kernel.add({}, {1});
  kernel.add_wait();
  kernel.add({2}, {});
  kernel.add({}, {2});
  const std::vector<uint32_t> places = kernel.places();
  EXPECT_NE(places[0], places[1]);
  EXPECT_EQ(places[0], places[2]);  // behind the wait
}

// The operation of one round is in flight at the beginning of the next.
TEST(RegisterLayoutTest, AnOperandInFlightKeepsItsPlaceRoundALoop) {
  Kernel kernel;
  const uint32_t begin = kernel.add({1}, {});
  kernel.add({}, {1});
  kernel.add_wait();
  kernel.add({0}, {});
  kernel.add_async({0});
  kernel.add({2}, {});
  kernel.add({}, {2});
  kernel.add_branch_back(begin);
  kernel.add_wait();
  const std::vector<uint32_t> places = kernel.places();
  EXPECT_NE(places[0], places[1]);
  EXPECT_NE(places[0], places[2]);
}

}  // namespace
}  // namespace lssar::vdev
