// CUTLASS's GEMMs for sm_80: cp.async in several stages, ldmatrix, mma.
#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm.h>

#include "case.h"

namespace witness::multistage {

using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using cutlass::gemm::GemmShape;

template <class T, class LayoutB, class Sum, class Block, class Warp, class Instruction,
          int kLargest>
struct Kind {
  using Element = T;
  using Output = Sum;
  using B = LayoutB;
  static constexpr int kMost = kLargest;
  using Gemm = cutlass::gemm::device::Gemm<
      T, RowMajor, T, LayoutB, Sum, RowMajor, Sum, cutlass::arch::OpClassTensorOp,
      cutlass::arch::Sm80, Block, Warp, Instruction,
      cutlass::epilogue::thread::LinearCombination<Sum, 16 / sizeof(Sum), Sum, Sum>,
      cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3>;
};

template <class K>
std::string run() {
  constexpr int m = 120, n = 72, k = 464 / int(sizeof(typename K::Element));
  using B = typename K::B;
  constexpr bool kRowsOfB = std::is_same_v<B, ColumnMajor>;  // B's transpose is kept by rows
  Matrix<typename K::Element> a(m, k, Order::kRows);
  Matrix<typename K::Element> b(n, k, kRowsOfB ? Order::kRows : Order::kColumns);
  Matrix<typename K::Output> c(m, n, Order::kRows), d(m, n, Order::kRows);
  a.fill(1, -K::kMost, K::kMost);
  b.fill(2, -K::kMost, K::kMost);
  c.fill(3, -K::kMost, K::kMost);
  const typename K::Gemm::Arguments arguments{
      {m, n, k},       {a.device(), k}, {b.device(), kRowsOfB ? k : n},
      {c.device(), n}, {d.device(), n}, {1, 1}};
  typename K::Gemm gemm;
  if (gemm.can_implement(arguments) != cutlass::Status::kSuccess) return "can_implement refused";
  const cutlass::Status status = gemm(arguments);
  if (status != cutlass::Status::kSuccess) {
    return std::string(cutlass::cutlassGetStatusString(status)) + ": " + runtime_error();
  }
  return compare_product(a, b, &c, 1, d);
}

using Fp16 = Kind<cutlass::half_t, RowMajor, float, GemmShape<64, 64, 32>, GemmShape<32, 32, 32>,
                  GemmShape<16, 8, 16>, 4>;
using Tf32 = Kind<cutlass::tfloat32_t, RowMajor, float, GemmShape<64, 64, 16>,
                  GemmShape<32, 32, 16>, GemmShape<16, 8, 8>, 7>;
using Int8 = Kind<int8_t, ColumnMajor, int32_t, GemmShape<64, 64, 64>, GemmShape<32, 32, 64>,
                  GemmShape<16, 8, 32>, 127>;

const Case kCases[] = {
    {"multistage fp16", run<Fp16>},
    {"multistage tf32", run<Tf32>},
    {"multistage s8", run<Int8>},
};

}  // namespace witness::multistage

witness::CaseList witness_cases() {
  using witness::multistage::kCases;
  return {kCases, sizeof kCases / sizeof kCases[0]};
}
