// What a device counted: instructions, memory traffic, bank conflicts. Made by the virtual device,
// read by the command and tests; counters_text.h prints them.
//
// Plain values. Threads: as any plain value.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lssar {

// What unit an instruction would occupy. Every PTX instruction is in exactly one class.
enum class InstructionClass : uint8_t {
  kTensor,      // mma, wgmma.mma_async
  kSpecial,     // .approx functions and div.full: one special function per lane
  kFma,         // fma and mad of floats
  kFloat,       // other floating arithmetic and comparison; div.rn and sqrt.rn as one
  kConversion,  // cvt
  kInteger,     // integer, logic, selects
  kMove,        // mov, cvta
  kMemory,      // loads, stores, atomics, ldmatrix, copies
  kWarp,        // shuffles, votes, redux, movmatrix
  kControl,     // branches, exits
  kSync,        // barriers, mbarriers, fences, waits
};
inline constexpr int kNumInstructionClasses = 11;

// The type of the first operand of a matrix product.
enum class TensorType : uint8_t { kF16, kBf16, kTf32, kFp8, kF64, kInteger };
inline constexpr int kNumTensorTypes = 6;

enum class AccessKind : uint8_t { kRead, kWrite, kAtomic };
inline constexpr int kNumAccessKinds = 3;

struct InstructionCount {
  uint64_t warps = 0;  // executions by a warp, or by some of its lanes alone
  uint64_t lanes = 0;  // threads that took part, including those predicated off

  void add(const InstructionCount& other) { warps += other.warps, lanes += other.lanes; }
};

struct GlobalTraffic {
  uint64_t requests = 0;  // warp instructions with a lane in this memory
  uint64_t bytes = 0;     // that the lanes asked for
  uint64_t sectors = 0;   // of 32 bytes, touched by each request

  void add(const GlobalTraffic& other) {
    requests += other.requests;
    bytes += other.bytes;
    sectors += other.sectors;
  }
};

struct SharedTraffic {
  uint64_t requests = 0;
  uint64_t bytes = 0;
  uint64_t wavefronts = 0;  // passes over the banks: cycles of the shared-memory port
  uint64_t ideal = 0;       // the same without conflicts

  uint64_t lost() const { return wavefronts - ideal; }
  void add(const SharedTraffic& other) {
    requests += other.requests;
    bytes += other.bytes;
    wavefronts += other.wavefronts;
    ideal += other.ideal;
  }
};

// The instruction that lost most; `lost` is 0 if none did.
struct WorstInstruction {
  uint64_t lost = 0;
  uint64_t requests = 0;
  uint32_t line = 0;  // of the PTX
  std::string kernel;
  std::string text;
};

struct LaunchCounters {
  // Executions of every instruction by every warp, once per pass of a group of lanes. Always
  // counted, and exact, even if `detailed` is false.
  uint64_t warp_instructions = 0;
  uint64_t launches = 0;

  // The rest is counted only if the device was asked to (VirtualOptions::count).
  bool detailed = false;
  std::array<InstructionCount, kNumInstructionClasses> instructions;
  std::array<uint64_t, kNumTensorTypes> tensor_flop = {};  // 2 m n k per product
  std::array<GlobalTraffic, kNumAccessKinds> global;
  std::array<SharedTraffic, kNumAccessKinds> shared;
  WorstInstruction worst_shared;  // by lost wavefronts
  WorstInstruction worst_global;  // by sectors beyond what its bytes would fill
  uint64_t barriers = 0;          // bar and barrier instructions, by warp; not bar.warp.sync
  uint64_t tma_load_bytes = 0;
  uint64_t tma_store_bytes = 0;
  uint64_t tma_reduce_bytes = 0;

  const InstructionCount& of(InstructionClass c) const { return instructions[size_t(c)]; }
  uint64_t flop(TensorType type) const { return tensor_flop[size_t(type)]; }
  const GlobalTraffic& global_of(AccessKind kind) const { return global[size_t(kind)]; }
  const SharedTraffic& shared_of(AccessKind kind) const { return shared[size_t(kind)]; }

  void add(const LaunchCounters& other);
};

// The counters of one PTX instruction.
struct LineCounters {
  uint32_t line = 0;  // of the PTX
  InstructionClass instruction_class = InstructionClass::kControl;
  InstructionCount executed;
  GlobalTraffic global;
  uint64_t global_excess = 0;  // sectors beyond what its bytes would fill
  SharedTraffic shared;
};

// The counters of all launches of the kernels with one name.
struct KernelCounters {
  std::string kernel;
  LaunchCounters counters;
  // The lines that were executed. If a name's launches are of different modules, a line is not one
  // instruction. Empty unless counters.detailed.
  std::vector<LineCounters> lines = {};

  void add(const LaunchCounters& launch, const std::vector<LineCounters>& its_lines);
};

}  // namespace lssar
