// Shared memory by 32-bit address, copies, vector loads and stores.
//
// Accesses to shared memory are volatile assembly, so the compiler keeps their order, also relative
// to barriers, and never merges two of them.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

extern __shared__ __attribute__((aligned(16))) unsigned char dynamic_shared_memory[];

LSSAR_DEVICE u32 dynamic_shared_address() {
  u64 address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(dynamic_shared_memory));
  return static_cast<u32>(address);
}

// For swizzled tiles, whose alignment is that of the swizzle pattern of TMA and wgmma.
extern __shared__ __attribute__((aligned(1024))) unsigned char swizzled_shared_memory[];

LSSAR_DEVICE u32 swizzled_shared_address() {
  u64 address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(swizzled_shared_memory));
  return static_cast<u32>(address);
}

LSSAR_DEVICE void store_shared(u32 address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value));
}
LSSAR_DEVICE void store_shared(u32 address, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value));
}
LSSAR_DEVICE void store_shared(u32 address, const u32 (&value)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value[0]),
               "r"(value[1]), "r"(value[2]), "r"(value[3]));
}
LSSAR_DEVICE void store_shared(u32 address, const float (&value)[4]) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(value[0]),
               "f"(value[1]), "f"(value[2]), "f"(value[3])
               : "memory");
}
LSSAR_DEVICE void store_shared(u32 address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y));
}

LSSAR_DEVICE void load_shared(float& value, u32 address) {
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
}
LSSAR_DEVICE void load_shared(u32& value, u32 address) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
}
LSSAR_DEVICE void load_shared(u32 (&value)[4], u32 address) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
               : "r"(address));
}
LSSAR_DEVICE void load_shared(float (&value)[2], u32 address) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value[0]), "=f"(value[1]) : "r"(address));
}
LSSAR_DEVICE void load_shared(float (&value)[4], u32 address) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
               : "r"(address));
}

// Four 8x8 matrices of 16-bit elements; lanes 8i..8i+7 give the row addresses of matrix i.
LSSAR_DEVICE void load_matrices(u32 (&matrices)[4], u32 row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row_address));
}
LSSAR_DEVICE void load_matrices_transposed(u32 (&matrices)[4], u32 row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row_address));
}

// Writes four 8 x 8 matrices to rows in shared memory, as ldmatrix reads them (sm_90).
LSSAR_DEVICE void store_matrices(u32 row_address, const u32 (&matrices)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address),
      "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3]));
}

// Copies 16 aligned bytes. If `valid` is false it writes zeros and does not read the source.
LSSAR_DEVICE void copy_async_16(u32 shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(valid ? 16 : 0));
}
// The same for 4 bytes.
LSSAR_DEVICE void copy_async_4(u32 shared, const void* global, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global),
               "r"(valid ? 4 : 0));
}
LSSAR_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `kPending` groups of this thread are in flight. Others need a barrier, too.
template <int kPending>
LSSAR_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

LSSAR_DEVICE void load_global_16(u32 (&value)[4], const void* address) {
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
               : "l"(address));
}
// From memory that the kernel may write.
LSSAR_DEVICE void load_written_16(u32 (&value)[4], const void* address) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
               : "l"(address)
               : "memory");
}
LSSAR_DEVICE void load_global_16(float (&value)[4], const float* address) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
               : "l"(address)
               : "memory");
}
LSSAR_DEVICE void store_global_4(void* address, u32 value) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
LSSAR_DEVICE void store_global_8(float* address, float x, float y) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(address), "f"(x), "f"(y) : "memory");
}
LSSAR_DEVICE void store_global_16(void* address, const u32 (&value)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value[0]),
               "r"(value[1]), "r"(value[2]), "r"(value[3])
               : "memory");
}
LSSAR_DEVICE void store_global_16(float* address, const float (&value)[4]) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(value[0]),
               "f"(value[1]), "f"(value[2]), "f"(value[3])
               : "memory");
}
// Counters shared by the blocks of a grid.
//
// Acquire and release order the global memory accesses of this thread and of the threads that it
// synchronises with.
LSSAR_DEVICE u32 add_relaxed(u32* address, u32 value) {
  u32 before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(address), "r"(value)
               : "memory");
  return before;
}
LSSAR_DEVICE void add_release(u32* address, u32 value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
LSSAR_DEVICE u32 load_acquire(const u32* address) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
LSSAR_DEVICE void add_global(float* address, float value) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}
// Adds two neighbours with one instruction; 8-byte aligned (sm_90).
LSSAR_DEVICE void add_global_pair(float* address, float x, float y) {
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(address), "f"(x), "f"(y) : "memory");
}

}  // namespace lssar_device
