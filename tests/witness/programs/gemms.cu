// CUTLASS's GEMMs with roles for warps. One source, because reading the headers takes nvcc longest.
#include "gemm_sm90.h"

namespace witness::cooperative {  // two consumer warp groups share a tile

using namespace cute;

struct Cooperative : GemmKind {
  using Schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
  using EpilogueSchedule = cutlass::epilogue::TmaWarpSpecializedCooperative;
};

// Both operands MN-major; A is multicast.
struct Fp16 : Cooperative {
  using A = cutlass::half_t;
  using B = A;
  using D = A;
  using LayoutA = ColumnMajor;
  using LayoutB = RowMajor;
  using Tile = Shape<_128, _64, _64>;
  using Cluster = Shape<_1, _2, _1>;
  static constexpr int kM = 248, kN = 248, kK = 200, kLargest = 2;
};

// Sums are added up in registers every few products, for their precision.
struct E4m3 : Cooperative {
  using A = cutlass::float_e4m3_t;
  using B = A;
  using D = cutlass::half_t;
  using Schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
  using Tile = Shape<_128, _64, _128>;
  using Cluster = Shape<_2, _1, _1>;
  static constexpr int kM = 392, kN = 120, kK = 464, kLargest = 1;
};

}  // namespace witness::cooperative

namespace witness::pingpong {  // two consumer warp groups take turns at tiles of their own

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

}  // namespace witness::pingpong

namespace witness {

const Case kCases[] = {
    {"cooperative fp16 MN-major, cluster 1x2", run_gemm<cooperative::Fp16>},
    {"cooperative e4m3, cluster 2x1", run_gemm<cooperative::E4m3>},
    {"pingpong bf16, cluster 2x1", run_gemm<pingpong::Bf16>},
    {"pingpong tf32 NT", run_gemm<pingpong::Tf32>},
};

}  // namespace witness

witness::CaseList witness_cases() {
  using witness::kCases;
  return {kCases, sizeof kCases / sizeof kCases[0]};
}
