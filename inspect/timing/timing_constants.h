// Constants of the timing model of an SM of compute capability 9.0. docs/timing_model.md has a
// table of them with their sources.
//
// Threads: plain values.
#pragma once

namespace lssar {

// In clocks, if the name says nothing else.
struct TimingConstants {
  // How long one warp's instruction occupies its pipe. Published: throughput table of the CUDA C++
  // programming guide, for compute capability 9.0.
  int fma = 2;      // each of the two pipes
  int alu = 2;      // integer, logic, comparison, selection, conversion to 16 bits
  int special = 8;  // MUFU and the conversions that share its unit
  int uniform = 2;  // assumed: one scalar instruction in two clocks
  // HMMA m16n8k16: 4 at the rate of HGMMA, which mma.sync reaches 0.62 of (arXiv 2402.13499).
  int hmma = 6;
  // Bytes that the SM's shared memory moves per clock. Published: CUDA C++ programming guide.
  int shared_bytes = 128;

  // How much work a unit accepts before issue to it stops. Assumed.
  int special_queue = 16;
  int shared_queue = 64;
  // HGMMA instructions of one warp that have been issued and have not started. Assumed: as many as
  // a kernel ever has in flight.
  int tensor_queue = 64;

  // When a result can be used after its work has begun. Assumed, near what is published for other
  // capabilities; the scoreboards of the machine code wait for them.
  int special_latency = 18;
  int shared_latency = 33;
  int exchange_latency = 24;  // shuffles
  int memory_latency = 270;   // a hit in the L2
  int other_latency = 20;
  int operand_read = 10;  // until a read scoreboard closes

  // From the issue of an HGMMA to its start in an idle tensor core, and from the end of a group to
  // the end of a wait for it. Assumed.
  int tensor_start = 24, tensor_return = 20;
  // Named barriers, tests of an mbarrier, fences and MEMBAR. Assumed.
  int barrier = 20, mbarrier_test = 24, fence = 30;
};

}  // namespace lssar
