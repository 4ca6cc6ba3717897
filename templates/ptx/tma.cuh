// Asynchronous copies between global tensors and boxes in shared memory.
//
// One thread issues a copy (sm_90). A load completes at an mbarrier that expects its bytes; stores
// and reductions belong to bulk groups of the issuing thread. Coordinates are in elements, the
// innermost first. Elements outside the tensor are loaded as 0 and not stored. In shared memory a
// box is 1024-byte aligned if its map has the 128-byte swizzle, else 128-byte aligned.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/types.cuh"

namespace lssar_device {

LSSAR_DEVICE void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Prefetches the kernel's first COUNT maps, so that the first copies need not wait for them.
//
// Called by one thread, while barriers are initialised.
template <int COUNT>
LSSAR_DEVICE void prefetch_maps(const TmaParams& tma) {
  static_assert(COUNT <= kMaxTensorMaps, "the rest is zero");
#pragma unroll
  for (int i = 0; i < COUNT; ++i) prefetch_map(tma.maps[i]);
}

LSSAR_DEVICE void tma_load(u32 shared, const TensorMap& map, u32 barrier, int x0, int x1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1)
      : "memory");
}
LSSAR_DEVICE void tma_load(u32 shared, const TensorMap& map, u32 barrier, int x0, int x1, int x2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2)
      : "memory");
}
LSSAR_DEVICE void tma_load(u32 shared, const TensorMap& map, u32 barrier, int x0, int x1, int x2,
                           int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}
LSSAR_DEVICE void tma_load(u32 shared, const TensorMap& map, u32 barrier, int x0, int x1, int x2,
                           int x3, int x4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
      : "memory");
}

// The same load into every block of the cluster whose bit of `blocks` is set, at the same address.
// Each of these blocks counts the bytes at its own barrier, which also has the same address.
LSSAR_DEVICE void tma_load_multicast(u32 shared, const TensorMap& map, u32 barrier, u32 blocks,
                                     int x0, int x1, int x2, int x3) {
  asm volatile(
      "{\n"
      ".reg .b16 mask;\n"
      "cvt.u16.u32 mask, %3;\n"
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], mask;\n"
      "}" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(blocks), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}

// Loads `bytes` side by side. Both addresses and the number are multiples of 16.
LSSAR_DEVICE void bulk_load(u32 shared, const void* global, u32 barrier, u32 bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}

LSSAR_DEVICE void tma_store(const TensorMap& map, u32 shared, int x0, int x1, int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
          &map),
      "r"(shared), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}
LSSAR_DEVICE void tma_store(const TensorMap& map, u32 shared, int x0, int x1, int x2, int x3,
                            int x4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::
          "l"(&map),
      "r"(shared), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
      : "memory");
}

// Adds the box to global memory, element by element, in no particular order.
LSSAR_DEVICE void tma_reduce_add(const TensorMap& map, u32 shared, int x0, int x1, int x2, int x3) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.bulk_group "
      "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
      "r"(shared), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}

LSSAR_DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all but the last kPending groups of this thread have read their sources.
//
// The sources may then be overwritten, but the results may not be visible yet.
template <int kPending>
LSSAR_DEVICE void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
template <int kPending>
LSSAR_DEVICE void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// Orders earlier accesses to shared memory before later asynchronous ones (copies, wgmma).
//
// For this thread and the threads that it synchronises with.
LSSAR_DEVICE void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace lssar_device
