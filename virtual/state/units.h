// Units of memory that instructions, the strict mode and the counters work in, what memory holds
// before its first write, and a limit. Plain constants.
#pragma once

#include <cstdint>

namespace lssar::vdev {

inline constexpr uint32_t kWordBytes = 4;        // the shadows of memory have one entry per word
inline constexpr uint32_t kMbarrierBytes = 8;    // its size and alignment
inline constexpr uint32_t kChunkBytes = 16;      // of shared memory: a swizzle moves it as a whole
inline constexpr uint32_t kMatrixRowBytes = 16;  // of the 8x8 matrices of ldmatrix and mma
inline constexpr uint32_t kSectorBytes = 32;     // of global memory

// At most this many asynchronous operations of a kind are in flight, so that a kernel that never
// waits does not fill the memory.
inline constexpr uint32_t kMostInFlight = 4096;

// Every byte of registers, shared and local memory until it is written: a NaN in every float type.
inline constexpr uint8_t kPoisonByte = 0xff;

}  // namespace lssar::vdev
