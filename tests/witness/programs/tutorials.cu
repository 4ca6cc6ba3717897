// CuTe's own tutorials for sm_90, as they are in the package. They compute right, and have bugs
// that the strict mode is to report: the test says which.
#include <cassert>
#include <cstdio>
#include <cstdlib>

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <cute/tensor.hpp>

#include <cutlass/arch/barrier.h>
#include <cutlass/arch/mma_sm90.h>
#include <cutlass/device_kernel.h>
#include <cutlass/cluster_launch.hpp>
#include <cutlass/pipeline/sm90_pipeline.hpp>
#include <cutlass/util/GPU_Clock.hpp>
#include <cutlass/util/helper_cuda.hpp>
#include <cutlass/util/print_error.hpp>

#include "case.h"

// Both have functions of these names; their headers were included above.
namespace witness::by_threads {
#include <cute/tutorial/hopper/wgmma_sm90.cu>
}
namespace witness::by_tma {
#include <cute/tutorial/hopper/wgmma_tma_sm90.cu>
}

namespace witness {

using Half = cutlass::half_t;

// Several tiles of 128 x 128 x 64 in each direction.
constexpr int kM = 256, kN = 256, kK = 320;

template <class Gemm>
std::string run_tutorial(Order order, Gemm gemm) {
  Matrix<Half> a(kM, kK, order), b(kN, kK, order);
  Matrix<Half> c(kM, kN, Order::kColumns);
  a.fill(1, -1, 1);
  b.fill(2, -1, 1);
  c.fill(3, -1, 1);
  const int lead_a = order == Order::kRows ? kK : kM, lead_b = order == Order::kRows ? kK : kN;
  gemm(a.device(), lead_a, b.device(), lead_b, c.device());
  return compare_product<Half, Half, Half>(a, b, nullptr, 0, c);
}

const Case kCases[] = {
    {"wgmma_sm90 nt",
     [] {
       return run_tutorial(Order::kColumns, [](auto* a, int m, auto* b, int n, auto* c) {
         by_threads::gemm_nt(kM, kN, kK, Half(1), a, m, b, n, Half(0), c, kM);
       });
     }},
    {"wgmma_tma_sm90 tn",
     [] {
       return run_tutorial(Order::kRows, [](auto* a, int m, auto* b, int n, auto* c) {
         by_tma::gemm_tn(kM, kN, kK, Half(1), a, m, b, n, Half(0), c, kM);
       });
     }},
};

}  // namespace witness

witness::CaseList witness_cases() {
  using witness::kCases;
  return {kCases, sizeof kCases / sizeof kCases[0]};
}
