// A kernel ready to run: ops with bound handlers and operands, basic blocks, the layout of a warp's
// registers. Made by the decoder, read by the block runner and the handlers; immutable, so any
// number of threads may run one program.
//
// NOTE: the handlers include this header and are compiled for several instruction sets. It must
// stay free of inline functions that the linker could share between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lssar::vdev {

struct Warp;
struct Op;
struct WgmmaCall;  // wgmma.h

// Executes one instruction for the lanes of warp.mask.
using Handler = void (*)(Warp& warp, const Op& op);

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr uint32_t kNoRegister = 0xffffffffu;
// A 64-bit register's bytes at offset 0 of a warp's registers. An op whose result is blended into
// its destination writes here first.
inline constexpr uint32_t kScratchOffset = 0;
inline constexpr uint32_t kScratchBytes = 256;

// Generic addresses of shared, local and parameter memory. Host addresses lie below all of them.
inline constexpr uint64_t kWindowShift = 56;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << kWindowShift;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << kWindowShift;
inline constexpr uint64_t kParamWindow = uint64_t{3} << kWindowShift;
// From this bit on, a shared address (.shared::cta or .shared::cluster) has the rank of its block
// in the cluster, as on sm_90. So do the addresses of variables. An address without a rank is one
// of block 0.
inline constexpr uint32_t kRankShift = 24;

// How setp, bar.red and vote combine, and which barrier an op is.
enum class Combine : uint8_t { kNone, kAnd, kOr, kXor, kPopc };
enum class BarrierKind : uint8_t { kSync, kArrive, kReduce };

// Registers are byte offsets from warp.registers: 32 lanes of 2, 4 or 8 bytes, or one 32-bit mask.
// Immediates are registers too, filled once per warp.
struct alignas(64) Op {
  Handler run = nullptr;         // if every live lane is active
  Handler run_masked = nullptr;  // otherwise
  Handler core = nullptr;        // the row's handler, which the two above may wrap
  uint32_t dst = kNoRegister;
  uint32_t a = kNoRegister;
  uint32_t b = kNoRegister;
  uint32_t c = kNoRegister;
  int64_t imm = 0;                 // an address offset, a literal, or a fourth register
  const uint32_t* list = nullptr;  // registers of vector operands
  uint32_t guard = kNoRegister;
  uint8_t guard_negated = 0;
  uint8_t space = 0;  // StateSpace of a memory access, BarrierKind of a barrier
  // Elements of a vector access; bytes of a blended result / 4; registers of an mma: 16 times a's
  // plus b's.
  uint8_t count = 0;
  uint8_t flags = 0;  // the handler decides: Combine, kOpNegateC, ...
};
static_assert(sizeof(Op) == 64, "an op is one cache line");

inline constexpr uint8_t kOpNegated = 0x80;  // in flags: the source predicate is negated
inline constexpr uint8_t kOpWide = 0x40;     // in flags: the address register has 64 bits
inline constexpr uint8_t kOpWrites = 0x20;   // in flags: the access writes memory
inline constexpr uint8_t kOpFlagsMask = 0x1f;

// Op::imm of the general cvt: what to convert, how, and how wide the registers are.
enum class NumberType : uint8_t {
  kU8,
  kS8,
  kU16,
  kS16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kBf16,
  kF32,
  kF64
};
inline constexpr int kNumNumberTypes = 12;
enum class Rounding : uint8_t { kNearestEven, kZero, kDown, kUp };
struct Conversion {
  NumberType to;
  NumberType from;
  Rounding rounding;
  uint8_t to_integral;  // .rni and the like
  uint8_t flags;        // below
  uint8_t to_bytes;     // of a register's lane
  uint8_t from_bytes;
  uint8_t unused;
};
static_assert(sizeof(Conversion) == sizeof(int64_t), "it is kept in Op::imm");
inline constexpr uint8_t kConvertFtz = 1;
inline constexpr uint8_t kConvertSat = 2;

// An operand's shape in a row of the decoder's table; see decoder.h.
enum class Bind : uint8_t {
  kAlu,      // one destination, up to four sources; lanes do not see each other
  kSetp,     // p[|q], a, b [, c]
  kPack,     // register <- {elements}
  kUnpack,   // {elements} <- register
  kClock,    // register <- %clock and the like
  kConvert,  // like kAlu; registers may be wider than the type
  kLoad,
  kLoadParam,  // ld.param at a fixed offset
  kStore,
  kAtomic,  // d, [a], b [, c]
  kReduce,  // [a], b
  kCopyAsync,
  kBulk,     // cp.async.bulk and the like; see bulk_operands.h
  kGeneric,  // see generic_operands.h
  // Like kGeneric, but the handler uses no operand. With null `operands` any are accepted.
  kNone,
  kImmediate,  // one literal
  kMatrixLoad,
  kMatrixStore,
  kMma,    // registers of d, a, b and c; then how wide they are, if not 32 bits
  kWgmma,  // {d}, {a} or a descriptor, b descriptor, scale-d, immediates
  kShuffle,
  kCollective,      // d [, a] [, membermask]
  kCollectivePair,  // d|p, ...
  kWarpSync,
  // The following end a basic block.
  kBranch,
  kTable,
  kExit,
  kBarrier,
};

// One form of an instruction: its opcode, where its operands go, and what executes it.
struct Row {
  // As in PTX, with [.a|.b] for optional and (.a|.b) for required alternatives.
  const char* opcode;
  Bind bind;
  // One letter per operand, the destination first: p predicate, h, w, l 16, 32, 64 bits, i literal.
  const char* operands;
  Handler handler;
  uint8_t arg = 0;  // is copied to Op::flags
};

struct RowSpan {
  const Row* rows;
  uint32_t count;
};

// Lets some of a warp's copies in flight arrive; the bits of `random` choose which.
using DeliverCopies = void (*)(Warp& warp, uint64_t random);

// What one instruction set provides.
struct HandlerSet {
  const RowSpan* const* spans;
  uint32_t num_spans;
  Handler blended;  // run_masked of a kAlu op: runs core on scratch, then copies the active lanes
  Handler guarded;  // runs core for the lanes whose guard holds
  Handler guarded_blended;
  void (*wgmma)(const WgmmaCall& call);
  const DeliverCopies* deliver_copies;
};

}  // namespace lssar::vdev
