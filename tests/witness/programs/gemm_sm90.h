// A warp-specialised GEMM of CUTLASS's collective builders, run on whole numbers.
#pragma once

#include <cute/tensor.hpp>

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#include "case.h"

namespace witness {

using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;

// d = a b + c, in integers. A kind of GEMM overrides what it changes.
struct GemmKind {
  using LayoutA = RowMajor;
  using LayoutB = ColumnMajor;
  using Sum = float;
  // Few, so that stages are used again on small problems.
  using Stages = cutlass::gemm::collective::StageCount<3>;
};

template <class Kind>
struct GemmOf {
  using A = typename Kind::A;
  using B = typename Kind::B;
  using D = typename Kind::D;
  static constexpr int kAlignA = 16 / sizeof(A), kAlignB = 16 / sizeof(B), kAlignD = 16 / sizeof(D);
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, typename Kind::Tile,
      typename Kind::Cluster, cutlass::epilogue::collective::EpilogueTileAuto, typename Kind::Sum,
      typename Kind::Sum, D, RowMajor, kAlignD, D, RowMajor, kAlignD,
      typename Kind::EpilogueSchedule>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, A, typename Kind::LayoutA, kAlignA, B,
      typename Kind::LayoutB, kAlignB, typename Kind::Sum, typename Kind::Tile,
      typename Kind::Cluster, typename Kind::Stages, typename Kind::Schedule>::CollectiveOp;
  using Kernel =
      cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
  using Device = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
};

template <class Layout>
constexpr Order order_of(bool rows_are_rows) {
  return std::is_same_v<Layout, RowMajor> == rows_are_rows ? Order::kRows : Order::kColumns;
}

// On as many SMs as a cluster has blocks, so that every block has several tiles. The sizes are no
// multiples of a tile's.
template <class Kind>
std::string run_gemm() {
  using Gemm = GemmOf<Kind>;
  constexpr int m = Kind::kM, n = Kind::kN, k = Kind::kK;
  Matrix<typename Gemm::A> a(m, k, order_of<typename Kind::LayoutA>(true));
  Matrix<typename Gemm::B> b(n, k, order_of<typename Kind::LayoutB>(false));
  Matrix<typename Gemm::D> c(m, n, Order::kRows), d(m, n, Order::kRows);
  a.fill(1, -Kind::kLargest, Kind::kLargest);
  b.fill(2, -Kind::kLargest, Kind::kLargest);
  c.fill(3, -Kind::kLargest, Kind::kLargest);
  using Kernel = typename Gemm::Kernel;
  const auto stride_a = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1});
  const auto stride_b = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1});
  const auto stride_d = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1});
  cutlass::KernelHardwareInfo hardware;
  hardware.device_id = 0;
  hardware.sm_count = cute::size(typename Kind::Cluster{});
  const typename Gemm::Device::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {m, n, k, 1},
      {a.device(), stride_a, b.device(), stride_b},
      {{1, 1}, c.device(), stride_d, d.device(), stride_d},
      hardware};
  typename Gemm::Device gemm;
  if (gemm.can_implement(arguments) != cutlass::Status::kSuccess) return "can_implement refused";
  if (Gemm::Device::get_workspace_size(arguments) != 0) return "wants a workspace";
  const cutlass::Status status = gemm(arguments);
  if (status != cutlass::Status::kSuccess) {
    return std::string(cutlass::cutlassGetStatusString(status)) + ": " + runtime_error();
  }
  return compare_product(a, b, &c, 1, d);
}

}  // namespace witness
