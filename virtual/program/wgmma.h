// One wgmma.mma_async as the arithmetic sees it: operands are found and bounds checked. The
// asynchronous engine fills it when the operation takes effect; ops/wgmma_math.cpp executes it.
//
// NOTE: compiled for several instruction sets, like program.h: plain data only.
#pragma once

#include <cstdint>

namespace lssar::vdev {

enum class WgmmaType : uint8_t { kF16, kBf16, kTf32, kE4m3, kE5m2, kS8, kU8 };

inline constexpr uint32_t kWarpsPerGroup = 4;
inline constexpr uint32_t kWgmmaRows = 16;                   // of A and D, per warp
inline constexpr uint32_t kWgmmaMaxColumns = 256;            // N
inline constexpr uint32_t kWgmmaChunksOfA = 2 * kWgmmaRows;  // of one warp
inline constexpr uint32_t kWgmmaMaxChunksOfB = 2 * kWgmmaMaxColumns;

// Op::imm of wgmma.mma_async. Op::list holds the registers of D, then the four of A if it is in
// registers; otherwise Op::a holds its descriptor. Op::b holds B's descriptor, Op::c the predicate
// scale-d.
struct WgmmaForm {
  uint16_t n;
  WgmmaType a_type;
  WgmmaType b_type;
  uint8_t half_sums;
  uint8_t negate : 1;
  uint8_t saturate : 1;  // for s8 and u8, whose sums are s32
  uint8_t unused : 6;
  uint8_t a_mn_major;
  uint8_t b_mn_major;
};
static_assert(sizeof(WgmmaForm) == sizeof(int64_t), "it is kept in Op::imm");

struct WgmmaWarp {
  uint8_t* d;                // d_registers are relative to it
  const uint8_t* a;          // a_registers are relative to it; unused without them
  const uint32_t* a_chunks;  // without a_registers: find_matrix_chunks of the warp's rows
};

struct WgmmaCall {
  WgmmaType a_type;
  WgmmaType b_type;
  bool half_sums;   // D has f16 elements: n / 4 registers instead of n / 2
  bool accumulate;  // scale-d
  bool saturate;    // for integer sums
  bool negate;      // exactly one of imm-scale-a and imm-scale-b is -1
  bool a_mn_major;  // for A in shared memory
  bool b_mn_major;
  uint32_t n;
  const uint8_t* shared;
  const uint32_t* b_chunks;     // find_matrix_chunks of n rows
  const uint32_t* d_registers;  // byte offsets, 64-byte aligned
  const uint32_t* a_registers;  // four, or null: A is in shared memory
  uint32_t num_warps;
  WgmmaWarp warps[kWarpsPerGroup];
};

using WgmmaKernel = void (*)(const WgmmaCall& call);

}  // namespace lssar::vdev
