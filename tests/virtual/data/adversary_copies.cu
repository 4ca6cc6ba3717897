// cp.async, block and warp barriers, races, bounds, poison, loops: see adversary.cuh.
#include "adversary.cuh"

#define COPY(address, source, mark)                                                             \
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4; // @" mark ::"r"(address), "l"(source) \
               : "memory")

// Copies that another warp reads: both wait and barrier are needed.
KERNEL(copy_for_others, 64) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  COPY(base + 4 * thread, a.in + thread, "copy");
  PLAIN("cp.async.commit_group", "commit");
  PLAIN("cp.async.wait_group 0", "wait");
  BLOCK_BARRIER("barrier");
  u32 word;
  LOAD_SHARED(word, base + 4 * (thread ^ 32), "read");
  STORE_GLOBAL(a.out + (thread ^ 32), word, "store");
}

// Copies that the thread itself reads, in two groups: no barrier is needed.
KERNEL(copy_own, 32) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  COPY(base + 4 * thread, a.in + thread, "copy");
  PLAIN("cp.async.commit_group", "commit");
  COPY(base + 128 + 4 * thread, a.in + 32 + thread, "second_copy");
  PLAIN("cp.async.commit_group", "second_commit");
  u32 word;
  PLAIN("cp.async.wait_group 1", "wait");
  LOAD_SHARED(word, base + 4 * thread, "read");
  STORE_GLOBAL(a.out + thread, word, "store");
  PLAIN("cp.async.wait_group 0", "second_wait");
  LOAD_SHARED(word, base + 128 + 4 * thread, "second_read");
  STORE_GLOBAL(a.out + 32 + thread, word, "second_store");
}

// The source of a copy is overwritten after the wait; "early" does so before it, "target" writes
// where the copy will write.
KERNEL(copy_source, 32) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  u32* source = a.scratch + thread;
  STORE_GLOBAL(source, a.in[thread], "fill");
  COPY(base + 4 * thread, source, "copy");
  asm volatile("// @early st.global.u32 [%0], 7;" ::"l"(source) : "memory");
  asm volatile("// @target st.shared.u32 [%0], 7;" ::"r"(base + 4 * thread) : "memory");
  PLAIN("cp.async.wait_all", "wait");
  STORE_GLOBAL(source, 7, "late");
  u32 word;
  LOAD_SHARED(word, base + 4 * thread, "read");
  a.out[thread] = word;
}

// Warps hand words to each other twice through the same place.
KERNEL(block_exchange, 64) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  for (int round = 0; round < 2; ++round) {
    u32 word;
    STORE_SHARED(base + 4 * thread, a.in[64 * round + thread], "write");
    BLOCK_BARRIER("barrier");
    LOAD_SHARED(word, base + 4 * (thread ^ 32), "read");
    a.out[64 * round + (thread ^ 32)] = word;
    BLOCK_BARRIER("second_barrier");
  }
}

// The same between lanes.
KERNEL(lane_exchange, 32) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  for (int round = 0; round < 2; ++round) {
    u32 word;
    STORE_SHARED(base + 4 * thread, a.in[32 * round + thread], "write");
    WARP_BARRIER("barrier");
    LOAD_SHARED(word, base + 4 * (thread ^ 1), "read");
    a.out[32 * round + (thread ^ 1)] = word;
    WARP_BARRIER("second_barrier");
  }
}

// A barrier that a test lets half of a warp pass by.
KERNEL(whole_warp_barrier, 64) {
  const u32 thread = threadIdx.x;
  asm volatile(
      "{\n"
      ".reg .pred some;\n"
      "setp.lt.u32 some, %0, 48;\n"
      "bar.sync 0; // @barrier\n"
      "}" ::"r"(thread)
      : "memory");
  a.out[thread] = a.in[thread];
}

// Named barriers of two warps, the counts in both.
KERNEL(named_barriers, 64) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  u32 word;
  if (thread < 32) {
    STORE_SHARED(base + 4 * thread, a.in[thread], "write");
    PLAIN("bar.arrive 1, 64", "arrive");
    PLAIN("bar.sync 2, 64", "first_sync");
    LOAD_SHARED(word, base + 128 + 4 * thread, "second_read");
    a.out[32 + thread] = word;
  } else {
    PLAIN("bar.sync 1, 64", "sync");
    LOAD_SHARED(word, base + 4 * (thread - 32), "read");
    a.out[thread - 32] = word;
    STORE_SHARED(base + 4 * thread, a.in[thread], "second_write");
    PLAIN("bar.sync 2, 64", "second_sync");
  }
}

// Warps hand words to each other through global memory.
KERNEL(global_exchange, 64) {
  const u32 thread = threadIdx.x;
  u32 word;
  STORE_GLOBAL(a.scratch + thread, a.in[thread], "write");
  BLOCK_BARRIER("barrier");
  LOAD_GLOBAL(word, a.scratch + (thread ^ 32), "read");
  a.out[thread ^ 32] = word;
}

// Blocks keep to their own words; "read_other", "write_other" and "read_sum" do not. Atomics
// do not race with each other.
KERNEL(global_blocks, 32) {
  const u32 thread = threadIdx.x, index = blockIdx.x * 32 + thread, other = index ^ 32;
  u32 word;
  STORE_GLOBAL(a.scratch + index, a.in[index], "write");
  LOAD_GLOBAL(word, a.scratch + index, "read");
  asm volatile("// @read_other ld.global.u32 %0, [%1];" : "+r"(word) : "l"(a.scratch + other));
  asm volatile("// @write_other st.global.u32 [%0], %1;" ::"l"(a.scratch + other), "r"(word)
               : "memory");
  asm volatile("red.global.add.u32 [%0], 1; // @add" ::"l"(a.scratch + 64) : "memory");
  asm volatile("// @read_sum ld.global.u32 %0, [%1];" : "+r"(word) : "l"(a.scratch + 64));
  a.out[index] = word;
}

// Plain accesses of every state space, for bounds, alignment and what was never written.
KERNEL(plain_accesses, 32) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  u32 word;
  LOAD_GLOBAL(word, a.in + thread, "load");
  STORE_SHARED(base + 4 * thread, word, "store_shared");
  LOAD_SHARED(word, base + 4 * thread, "load_shared");
  asm volatile("// @unwritten ld.global.u32 %0, [%1];" : "+r"(word) : "l"(a.out + thread));
  STORE_GLOBAL(a.out + thread, word, "store");
}

// Reads what was never written and does nothing with it; "value", "address" and "branch" do.
KERNEL(poison, 32) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  u32 word = a.in[thread], junk;
  LOAD_SHARED(junk, base + 4 * thread, "read");
  asm volatile("// @value add.u32 %0, %0, %1;" : "+r"(word) : "r"(junk));
  asm volatile(
      "{\n"
      ".reg .pred some;\n"
      ".reg .u32 offset;\n"
      ".reg .u64 address;\n"
      "and.b32 offset, %0, 12;\n"
      "cvt.u64.u32 address, offset;\n"
      "add.u64 address, address, %1;\n"
      "// @address ld.global.u32 offset, [address];\n"
      "setp.eq.u32 some, %0, 3;\n"
      "// @branch @some bra DONE;\n"
      "mov.u32 offset, 0;\n"
      "DONE:\n"
      "}" ::"r"(junk),
      "l"(a.in)
      : "memory");
  STORE_GLOBAL(a.out + thread, word, "store");
}

// A loop that a test makes endless.
KERNEL(loop, 32) {
  a.out[threadIdx.x] = a.in[threadIdx.x];
  asm volatile(
      "{\n"
      "AGAIN:\n"
      "// @endless bra AGAIN;\n"
      "}" ::
          : "memory");
}
