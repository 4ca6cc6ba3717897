// Plans that are ready to be called and images' metadata, without a compiler or a GPU.
//
// Used by plan_harness.cpp and reader_seeds.cpp, which have the C API's lssar_device, while the
// kernels' parameters are in a namespace of that name. Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/record_device.h"
#include "runtime/plan.h"

namespace lssar::test {

// The device counts what the plan launches.
struct PreparedPlan {
  std::shared_ptr<RecordDevice> device;
  std::unique_ptr<Plan> plan;
};

inline constexpr int kPreparedDims[] = {64, 128, 64, 40};
// The plan for head dim kPreparedDims[which], modulo their number.
const PreparedPlan& prepared_plan(uint8_t which);

// What lies beside an image in the cache.
std::string sample_metadata();

}  // namespace lssar::test
