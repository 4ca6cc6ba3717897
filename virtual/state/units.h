// Units of memory that the strict mode and the counters work in. Plain constants.
#pragma once

#include <cstdint>

namespace lssar::vdev {

inline constexpr uint32_t kWordBytes = 4;      // what shadows of memory have one entry for
inline constexpr uint32_t kMbarrierBytes = 8;  // of an mbarrier, which is aligned to as many
inline constexpr uint32_t kSectorBytes = 32;   // of global memory

}  // namespace lssar::vdev
