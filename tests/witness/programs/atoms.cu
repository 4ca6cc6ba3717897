// Products of one warp group by CuTe's wgmma atoms: types, signs, majors, swizzles, widths, A from
// shared memory and from registers, and atoms narrower than the swizzle atom they read from.
#include <cute/tensor.hpp>

#include <cutlass/arch/barrier.h>
#include <cute/algorithm/copy.hpp>
#include <cute/arch/mma_sm90.hpp>
#include <cute/atom/mma_atom.hpp>

#include "case.h"

namespace witness::atoms {

using namespace cute;
using bf16 = cutlass::bfloat16_t;
using fp16 = cutlass::half_t;
using tf32 = cutlass::tfloat32_t;
using e4m3 = cutlass::float_e4m3_t;
using e5m2 = cutlass::float_e5m2_t;

// Layouts of an operand in shared memory.
#define WITNESS_LAYOUT(name, major, atom)                     \
  struct name {                                               \
    static constexpr GMMA::Major kMajor = GMMA::Major::major; \
    template <class T>                                        \
    using Atom = GMMA::atom<T>;                               \
  }
WITNESS_LAYOUT(K128, K, Layout_K_SW128_Atom);
WITNESS_LAYOUT(K64, K, Layout_K_SW64_Atom);
WITNESS_LAYOUT(K32, K, Layout_K_SW32_Atom);
WITNESS_LAYOUT(KNone, K, Layout_K_INTER_Atom);
WITNESS_LAYOUT(Mn128, MN, Layout_MN_SW128_Atom);
WITNESS_LAYOUT(Mn64, MN, Layout_MN_SW64_Atom);
WITNESS_LAYOUT(Mn32, MN, Layout_MN_SW32_Atom);
WITNESS_LAYOUT(MnNone, MN, Layout_MN_INTER_Atom);
#undef WITNESS_LAYOUT

// 64 x kN by wgmma of kAtomN columns.
template <class A, class B, class C, class LayoutA, class LayoutB, int kN, int kAtomN = kN,
          bool kFromRegisters = false>
struct Product {
  using ElementA = A;
  using ElementB = B;
  using ElementC = C;
  static constexpr bool kAFromRegisters = kFromRegisters;
  static constexpr int kM = 64, kColumns = kN;
  static constexpr int kK = 256 / sizeof(A);  // two rows of the widest swizzle
  using AtomShape = Shape<Int<kM>, Int<kAtomN>, Int<32 / sizeof(A)>>;
  static constexpr auto op() {
    if constexpr (kFromRegisters) {
      return GMMA::rs_op_selector<A, B, C, AtomShape, LayoutA::kMajor, LayoutB::kMajor>();
    } else {
      return GMMA::ss_op_selector<A, B, C, AtomShape, LayoutA::kMajor, LayoutB::kMajor>();
    }
  }
  using Mma = decltype(make_tiled_mma(op()));
  using SharedA =
      decltype(tile_to_shape(typename LayoutA::template Atom<A>{}, Shape<Int<kM>, Int<kK>>{}));
  using SharedB =
      decltype(tile_to_shape(typename LayoutB::template Atom<B>{}, Shape<Int<kN>, Int<kK>>{}));
  static constexpr int kBytesA = cosize_v<SharedA> * sizeof(A);
  static constexpr int kOffsetB = (kBytesA + 1023) / 1024 * 1024;
  static constexpr int kSharedBytes = kOffsetB + cosize_v<SharedB> * sizeof(B);
};

template <class P>
__global__ void __launch_bounds__(128)
    multiply(const typename P::ElementA* a, const typename P::ElementB* b,
             typename P::ElementC* c) {
  extern __shared__ __align__(1024) unsigned char shared[];
  using A = typename P::ElementA;
  using B = typename P::ElementB;
  auto s_a = make_tensor(make_smem_ptr(reinterpret_cast<A*>(shared)), typename P::SharedA{});
  auto s_b =
      make_tensor(make_smem_ptr(reinterpret_cast<B*>(shared + P::kOffsetB)), typename P::SharedB{});
  for (int i = threadIdx.x; i < P::kM * P::kK; i += 128) s_a(i / P::kK, i % P::kK) = a[i];
  for (int i = threadIdx.x; i < P::kColumns * P::kK; i += 128) s_b(i / P::kK, i % P::kK) = b[i];
  cutlass::arch::fence_view_async_shared();
  __syncthreads();

  typename P::Mma mma;
  auto thread_mma = mma.get_slice(threadIdx.x);
  auto g_c = make_tensor(make_gmem_ptr(c), Shape<Int<P::kM>, Int<P::kColumns>>{}, GenRowMajor{});
  auto part_c = thread_mma.partition_C(g_c);
  auto sums = thread_mma.make_fragment_C(part_c);
  auto part_a = thread_mma.partition_A(s_a);
  auto frag_a = thread_mma.make_fragment_A(part_a);  // descriptors, or registers
  auto frag_b = thread_mma.make_fragment_B(thread_mma.partition_B(s_b));
  if constexpr (P::kAFromRegisters) copy(part_a, frag_a);

  mma.accumulate_ = GMMA::ScaleOut::Zero;
  warpgroup_fence_operand(sums);
  warpgroup_arrive();
  CUTE_UNROLL
  for (int k = 0; k < size<2>(frag_b); ++k) {
    gemm(mma, frag_a(_, _, k), frag_b(_, _, k), sums);
    mma.accumulate_ = GMMA::ScaleOut::One;
  }
  warpgroup_commit_batch();
  warpgroup_wait<0>();
  warpgroup_fence_operand(sums);
  copy(sums, part_c);
}

// Whole numbers whose sums the accumulator holds exactly.
template <class T>
void fill(witness::Matrix<T>& matrix, uint32_t seed) {
  if constexpr (std::is_same_v<T, int8_t>) {
    matrix.fill(seed, -128, 127);
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    matrix.fill(seed, 0, 255);
  } else {
    matrix.fill(seed, -3, 3);
  }
}

template <class P>
std::string run() {
  using witness::Matrix;
  using witness::Order;
  Matrix<typename P::ElementA> a(P::kM, P::kK, Order::kRows);
  Matrix<typename P::ElementB> b(P::kColumns, P::kK, Order::kRows);
  Matrix<typename P::ElementC> c(P::kM, P::kColumns, Order::kRows);
  fill(a, 1);
  fill(b, 2);
  cudaFuncSetAttribute(multiply<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kSharedBytes);
  multiply<P><<<1, 128, P::kSharedBytes>>>(a.device(), b.device(), c.device());
  return witness::compare_product<typename P::ElementA, typename P::ElementB, float>(a, b, nullptr,
                                                                                     0, c);
}

template <class A, class B, class C, class LayoutB, int kN>
using FromRegisters = Product<A, B, C, K128, LayoutB, kN, kN, true>;
// B of one swizzle atom's width, read kAtomN columns at a time.
template <class LayoutB, int kN, int kAtomN>
using Narrow = Product<bf16, bf16, float, K128, LayoutB, kN, kAtomN>;

// NOTE: nvcc takes two to three seconds for each, so each shows several things.
const witness::Case kCases[] = {
    {"bf16 K128 K128 n8", run<Product<bf16, bf16, float, K128, K128, 8>>},
    {"bf16 K128 K128 n256", run<Product<bf16, bf16, float, K128, K128, 256>>},
    {"bf16 K64 Mn128 n64", run<Product<bf16, bf16, float, K64, Mn128, 64>>},
    {"bf16 Mn64 KNone n96", run<Product<bf16, bf16, float, Mn64, KNone, 96>>},
    {"bf16 Mn32 Mn64 n64", run<Product<bf16, bf16, float, Mn32, Mn64, 64>>},
    {"bf16 MnNone Mn32 n32", run<Product<bf16, bf16, float, MnNone, Mn32, 32>>},
    {"fp16 Mn128 K32 n40", run<Product<fp16, fp16, float, Mn128, K32, 40>>},
    {"fp16 sums fp16 K128 MnNone n64", run<Product<fp16, fp16, fp16, K128, MnNone, 64>>},
    {"tf32 K128 K64 n64", run<Product<tf32, tf32, float, K128, K64, 64>>},
    {"tf32 K32 KNone n8", run<Product<tf32, tf32, float, K32, KNone, 8>>},
    {"e4m3 K128 K128 n24", run<Product<e4m3, e4m3, float, K128, K128, 24>>},
    {"e5m2 e4m3 sums fp16 K64 K32 n64", run<Product<e5m2, e4m3, fp16, K64, K32, 64>>},
    {"e4m3 e5m2 KNone K64 n32", run<Product<e4m3, e5m2, float, KNone, K64, 32>>},
    {"s8 K128 K64 n64", run<Product<int8_t, int8_t, int32_t, K128, K64, 64>>},
    {"s8 u8 K32 K32 n48", run<Product<int8_t, uint8_t, int32_t, K32, K32, 48>>},
    {"u8 s8 KNone K128 n8", run<Product<uint8_t, int8_t, int32_t, KNone, K128, 8>>},
    {"u8 K64 KNone n32", run<Product<uint8_t, uint8_t, int32_t, K64, KNone, 32>>},
    {"registers bf16 K128 n64", run<FromRegisters<bf16, bf16, float, K128, 64>>},
    {"registers fp16 sums fp16 Mn128 n64", run<FromRegisters<fp16, fp16, fp16, Mn128, 64>>},
    {"registers tf32 K64 n32", run<FromRegisters<tf32, tf32, float, K64, 32>>},
    {"registers e4m3 K128 n32", run<FromRegisters<e4m3, e4m3, float, K128, 32>>},
    {"registers u8 s8 K64 n16", run<FromRegisters<uint8_t, int8_t, int32_t, K64, 16>>},
    {"narrow Mn128 n8 of 64", run<Narrow<Mn128, 64, 8>>},
    {"narrow Mn128 n32 of 64", run<Narrow<Mn128, 64, 32>>},
    {"narrow Mn64 n16 of 64", run<Narrow<Mn64, 64, 16>>},
    {"narrow Mn32 n8 of 16", run<Narrow<Mn32, 16, 8>>},
};

}  // namespace witness::atoms

witness::CaseList witness_cases() {
  using witness::atoms::kCases;
  return {kCases, sizeof kCases / sizeof kCases[0]};
}
