// mma.sync of 4-bit integers and of single bits, and of bytes at m8n8k16.
//
// Layouts (lane = 4 g + t): a 32-bit register holds kEach = 32 / bits elements, the first in the
// lowest bits. Matrices have 8 kBlocks rows.
//   register r of a         row g + 8 (r % kBlocks), k from 4 kEach (r / kBlocks) + kEach t on
//   register r of b         column g, k from 4 kEach r + kEach t on
//   register r of the sums  row g + 8 (r / 2), column 2t + r % 2
#include "virtual/ops/collective.h"
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

constexpr u32 kColumns = 8;
// Row::arg, and so Op::flags: which of a and b are signed; whether sums saturate.
constexpr u8 kSignedA = 1, kSignedB = 2, kSaturate = 4;

// Both matrices as words of kEach elements of consecutive k: a by rows, b by columns.
template <u32 kBlocks, u32 kWords>
struct Words {
  u32 a[8 * kBlocks][kWords];
  u32 b[kColumns][kWords];
};
template <u32 kBlocks, u32 kWords>
inline void read_words(const Warp& w, const u32* a, const u32* b, Words<kBlocks, kWords>& m) {
  for (u32 r = 0; r < kBlocks * kWords / 4; ++r) {
    const u32* x = lanes<u32>(w, a[r]);
    for (u32 i = 0; i < kLanes; ++i) {
      m.a[8 * (r % kBlocks) + i / 4][4 * (r / kBlocks) + i % 4] = x[i];
    }
  }
  for (u32 r = 0; r < kWords / 4; ++r) {
    const u32* x = lanes<u32>(w, b[r]);
    for (u32 i = 0; i < kLanes; ++i) m.b[i / 4][4 * r + i % 4] = x[i];
  }
}

// The sum of the products of a word of a and a word of b.
template <u32 kBits>
struct Integers {
  static s32 element(u32 word, u32 index, bool is_signed) {
    const u32 high = word << (32 - kBits * (index + 1));
    return is_signed ? static_cast<s32>(high) >> (32 - kBits)
                     : static_cast<s32>(high >> (32 - kBits));
  }
  static s64 apply(u32 a, u32 b, u32 flags) {
    s64 sum = 0;
    for (u32 e = 0; e < 32 / kBits; ++e) {
      sum += element(a, e, flags & kSignedA) * element(b, e, flags & kSignedB);
    }
    return sum;
  }
};
struct BothBits {
  static s64 apply(u32 a, u32 b, u32) { return __builtin_popcount(a & b); }
};
struct OtherBits {
  static s64 apply(u32 a, u32 b, u32) { return __builtin_popcount(a ^ b); }
};

// Sums wrap, or are clamped once at the end.
inline s32 finish(s64 sum, u32 flags) {
  if (flags & kSaturate) {
    sum = sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? -0x80000000ll : sum;
  }
  return static_cast<s32>(sum);
}

// k = kWords times the elements of a word.
template <class F, u32 kBlocks, u32 kWords>
void mma(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  const u32* d = op.list;
  const u32* a = d + 2 * kBlocks;
  const u32* b = a + kBlocks * kWords / 4;
  const u32* c = b + kWords / 4;
  Words<kBlocks, kWords> m;
  read_words(w, a, b, m);
  s32 result[2 * kBlocks][kLanes];
  for (u32 r = 0; r < 2 * kBlocks; ++r) {
    const s32* x = lanes<s32>(w, c[r]);
    for (u32 i = 0; i < kLanes; ++i) {
      const u32* row = m.a[8 * (r >> 1) + i / 4];
      const u32* column = m.b[2 * (i % 4) + (r & 1)];
      s64 sum = x[i];
      for (u32 k = 0; k < kWords; ++k) sum += F::apply(row[k], column[k], op.flags);
      result[r][i] = finish(sum, op.flags);
    }
  }
  for (u32 r = 0; r < 2 * kBlocks; ++r) memcpy(lanes<s32>(w, d[r]), result[r], sizeof result[r]);
}

#define MMA(shape, types) "mma.sync.aligned." shape ".row.col" types
#define INTEGERS(shape, counts, bits, a, b, blocks, words, arg)                                \
  {MMA(shape, ".s32." a "." b ".s32"), Bind::kMma, counts, mma<Integers<bits>, blocks, words>, \
   arg},                                                                                       \
  {                                                                                            \
    MMA(shape, ".satfinite.s32." a "." b ".s32"), Bind::kMma, counts,                          \
        mma<Integers<bits>, blocks, words>, (arg) | kSaturate                                  \
  }
#define SIGNS(shape, counts, bits, s, u, blocks, words)             \
  INTEGERS(shape, counts, bits, u, u, blocks, words, 0),            \
      INTEGERS(shape, counts, bits, s, u, blocks, words, kSignedA), \
      INTEGERS(shape, counts, bits, u, s, blocks, words, kSignedB), \
      INTEGERS(shape, counts, bits, s, s, blocks, words, kSignedA | kSignedB)
#define SINGLE_BITS(shape, counts, blocks, words)                                              \
  {MMA(shape, ".s32.b1.b1.s32.and.popc"), Bind::kMma, counts, mma<BothBits, blocks, words>}, { \
    MMA(shape, ".s32.b1.b1.s32.xor.popc"), Bind::kMma, counts, mma<OtherBits, blocks, words>   \
  }

const Row kRows[] = {
    SIGNS("m8n8k16", "2112", 8, "s8", "u8", 1, 4),  SIGNS("m8n8k32", "2112", 4, "s4", "u4", 1, 4),
    SIGNS("m16n8k32", "4214", 4, "s4", "u4", 2, 4), SIGNS("m16n8k64", "4424", 4, "s4", "u4", 2, 8),
    SINGLE_BITS("m8n8k128", "2112", 1, 4),          SINGLE_BITS("m16n8k128", "4214", 2, 4),
    SINGLE_BITS("m16n8k256", "4424", 2, 8),
};

}  // namespace

LSSAR_ROWS(kMmaIntegerRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
