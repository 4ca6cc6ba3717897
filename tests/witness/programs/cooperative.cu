// CUTLASS's cooperative GEMMs: two consumer warp groups share a tile.
#include "gemm_sm90.h"

namespace witness::cooperative {

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

const Case kCases[] = {
    {"cooperative fp16 MN-major, cluster 1x2", run_gemm<Fp16>},
    {"cooperative e4m3, cluster 2x1", run_gemm<E4m3>},
};

}  // namespace witness::cooperative

witness::CaseList witness_cases() {
  using witness::cooperative::kCases;
  return {kCases, sizeof kCases / sizeof kCases[0]};
}
