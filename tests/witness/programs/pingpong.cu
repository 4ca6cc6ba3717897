// CUTLASS's pingpong GEMMs: two consumer warp groups take turns at tiles of their own.
#include "gemm_sm90.h"

namespace witness::pingpong {

using namespace cute;

struct Pingpong : GemmKind {
  using Schedule = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
  using EpilogueSchedule = cutlass::epilogue::TmaWarpSpecialized;
};

// B is multicast; c and d go through shared memory by TMA, and stmatrix.
struct Bf16 : Pingpong {
  using A = cutlass::bfloat16_t;
  using B = A;
  using D = A;
  using Tile = Shape<_64, _64, _64>;
  using Cluster = Shape<_2, _1, _1>;
  static constexpr int kM = 240, kN = 120, kK = 232, kLargest = 1;
};

// Both operands MN-major: the kernel transposes one in shared memory.
struct Tf32 : Pingpong {
  using A = cutlass::tfloat32_t;
  using B = A;
  using D = float;
  using LayoutA = ColumnMajor;
  using LayoutB = RowMajor;
  using Tile = Shape<_64, _64, _32>;
  using Cluster = Shape<_1, _1, _1>;
  // This mainloop takes no number of stages. What the carve-out leaves is four.
  using Stages = cutlass::gemm::collective::StageCountAutoCarveout<(160 << 10)>;
  static constexpr int kM = 188, kN = 72, kK = 116, kLargest = 7;
};

const Case kCases[] = {
    {"pingpong bf16, cluster 2x1", run_gemm<Bf16>},
    {"pingpong tf32 NT", run_gemm<Tf32>},
};

}  // namespace witness::pingpong

witness::CaseList witness_cases() {
  using witness::pingpong::kCases;
  return {kCases, sizeof kCases / sizeof kCases[0]};
}
