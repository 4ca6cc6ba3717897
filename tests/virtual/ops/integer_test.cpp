// Integer instructions against scalar C++.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

using u128 = unsigned __int128;
using i128 = __int128;

int16_t s16(uint64_t x) { return static_cast<int16_t>(x); }
int32_t s32(uint64_t x) { return static_cast<int32_t>(x); }
int64_t s64(uint64_t x) { return static_cast<int64_t>(x); }
uint32_t u32(uint64_t x) { return static_cast<uint32_t>(x); }

class IntegerTest : public testing::TestWithParam<LaneCase> {};
TEST_P(IntegerTest, EqualsScalar) { check_lanes(GetParam()); }

#define CASE(text, letters, expression)                                                \
  LaneCase {                                                                           \
    text, letters, Kind::kInteger, Kind::kInteger, [](const uint64_t* v) -> uint64_t { \
      [[maybe_unused]] const uint64_t a = v[0], b = v[1], c = v[2], d = v[3];          \
      return static_cast<uint64_t>(expression);                                        \
    }                                                                                  \
  }

uint64_t extract(uint64_t a, int bits, bool is_signed, unsigned pos, unsigned len) {
  pos &= 255;
  len &= 255;
  uint64_t result = 0;
  const bool sign =
      is_signed && len != 0 && ((a >> std::min<unsigned>(pos + len - 1, bits - 1)) & 1);
  for (int i = 0; i < bits; ++i) {
    const bool bit = static_cast<unsigned>(i) < len && pos + i < static_cast<unsigned>(bits)
                         ? (a >> (pos + i)) & 1
                         : sign;
    result |= static_cast<uint64_t>(bit) << i;
  }
  return result;
}
uint64_t insert(uint64_t a, uint64_t b, int bits, unsigned pos, unsigned len) {
  pos &= 255;
  len &= 255;
  for (unsigned i = 0; i < len && pos + i < static_cast<unsigned>(bits); ++i) {
    const uint64_t bit = uint64_t{1} << (pos + i);
    b = (i < 64 && (a >> i) & 1) ? b | bit : b & ~bit;
  }
  return b;
}
// As the PTX ISA has it: b's bits, a's above them, then those of c.
uint64_t packed(int bits, int64_t least, int64_t most, int64_t a, int64_t b, uint64_t c) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const auto part = [&](int64_t x) {
    return static_cast<uint64_t>(std::clamp(x, least, most)) & mask;
  };
  return (part(b) | part(a) << bits | c << 2 * bits) & 0xffffffffu;
}

uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t s = (selector >> (4 * i)) & 15;
    uint32_t byte = (both >> (8 * (s & 7))) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}
uint32_t lookup(uint32_t a, uint32_t b, uint32_t c, int table) {
  uint32_t result = 0;
  for (int i = 0; i < 32; ++i) {
    const int index = ((a >> i) & 1) * 4 + ((b >> i) & 1) * 2 + ((c >> i) & 1);
    result |= static_cast<uint32_t>((table >> index) & 1) << i;
  }
  return result;
}
uint64_t reverse(uint64_t a, int bits) {
  uint64_t result = 0;
  for (int i = 0; i < bits; ++i) result |= ((a >> i) & 1) << (bits - 1 - i);
  return result;
}
uint64_t highest(uint64_t a, int bits) {
  for (int i = bits - 1; i >= 0; --i) {
    if ((a >> i) & 1) return static_cast<uint64_t>(i);
  }
  return ~uint64_t{0};
}

// 24-bit factors, 48-bit product.
int64_t low24(uint64_t a, bool is_signed) {
  const int64_t low = static_cast<int64_t>(a & 0xffffff);
  return is_signed && low >= 0x800000 ? low - 0x1000000 : low;
}
int64_t sat32(i128 x) {
  return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : static_cast<int64_t>(x);
}
// Two 16-bit results side by side.
template <class F>
uint64_t pair(uint64_t a, uint64_t b, F f) {
  const auto part = [&](int shift) {
    return static_cast<uint16_t>(
        f(static_cast<uint16_t>(a >> shift), static_cast<uint16_t>(b >> shift)));
  };
  return static_cast<uint64_t>(part(16)) << 16 | part(0);
}
int64_t dot(uint64_t a, bool signed_a, int bytes_a, uint64_t b, bool signed_b, int first) {
  const auto element = [](uint64_t x, int bytes, int k, bool is_signed) {
    const int64_t e = static_cast<int64_t>((x >> (8 * bytes * k)) & ((1u << (8 * bytes)) - 1));
    return is_signed && e >> (8 * bytes - 1) ? e - (int64_t{1} << (8 * bytes)) : e;
  };
  int64_t sum = 0;
  for (int k = 0; k < 4 / bytes_a; ++k) {
    sum += element(a, bytes_a, k, signed_a) * element(b, 1, first + k, signed_b);
  }
  return sum;
}
// The byte selectors of prmt's modes, the lowest result byte first.
uint32_t permute_mode(const char* mode, uint64_t a, uint64_t b, uint64_t c) {
  const int n = static_cast<int>(c & 3);
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const std::string m = mode;
    const int pick = m == "f4e"   ? n + i
                     : m == "b4e" ? (n + 8 - i) % 8
                     : m == "rc8" ? n
                     : m == "ecl" ? std::max(n, i)
                     : m == "ecr" ? std::min(n, i)
                                  : 2 * (n % 2) + i % 2;
    result |= static_cast<uint32_t>((b << 32 | a) >> (8 * pick) & 255) << (8 * i);
  }
  return result;
}
uint64_t nth_set(uint64_t mask, int64_t base, int64_t offset) {
  if (offset == 0) return base >= 0 && base < 32 && (mask >> base) & 1 ? base : 0xffffffffu;
  int64_t left = std::abs(offset);
  for (int64_t at = base; at >= 0 && at < 32; at += offset < 0 ? -1 : 1) {
    if ((mask >> at) & 1 && --left == 0) return static_cast<uint64_t>(at);
  }
  return 0xffffffffu;
}
uint64_t bit_mask(uint64_t from, uint64_t count) {
  uint64_t mask = 0;
  for (uint64_t i = from; i < from + count && i < 32; ++i) mask |= uint64_t{1} << i;
  return mask;
}
uint64_t sign_extend(uint64_t a, uint64_t count, bool is_signed) {
  const bool sign = is_signed && count > 0 && (a >> (count - 1)) & 1;
  return (a & bit_mask(0, count)) | (sign ? ~bit_mask(0, count) : 0);
}

const LaneCase kCases[] = {
    CASE("add.s16 $0, $1, $2;", "hhh", a + b),
    CASE("add.s32 $0, $1, $2;", "www", a + b),
    CASE("add.u64 $0, $1, $2;", "lll", a + b),
    CASE("sub.u16 $0, $1, $2;", "hhh", a - b),
    CASE("sub.s32 $0, $1, $2;", "www", a - b),
    CASE("sub.s64 $0, $1, $2;", "lll", a - b),
    CASE("mul.lo.s16 $0, $1, $2;", "hhh", a* b),
    CASE("mul.lo.s32 $0, $1, $2;", "www", a* b),
    CASE("mul.lo.u64 $0, $1, $2;", "lll", a* b),
    CASE("mul.hi.u16 $0, $1, $2;", "hhh", (a * b) >> 16),
    CASE("mul.hi.s16 $0, $1, $2;", "hhh", (s16(a) * s16(b)) >> 16),
    CASE("mul.hi.u32 $0, $1, $2;", "www", (a * b) >> 32),
    CASE("mul.hi.s32 $0, $1, $2;", "www", (int64_t{s32(a)} * s32(b)) >> 32),
    CASE("mul.hi.u64 $0, $1, $2;", "lll", (u128{a} * b) >> 64),
    CASE("mul.hi.s64 $0, $1, $2;", "lll", (i128{s64(a)} * s64(b)) >> 64),
    CASE("mul.wide.u16 $0, $1, $2;", "whh", a* b),
    CASE("mul.wide.s16 $0, $1, $2;", "whh", s16(a) * s16(b)),
    CASE("mul.wide.u32 $0, $1, $2;", "lww", a* b),
    CASE("mul.wide.s32 $0, $1, $2;", "lww", int64_t{s32(a)} * s32(b)),
    CASE("mad.lo.s16 $0, $1, $2, $3;", "hhhh", a* b + c),
    CASE("mad.lo.s32 $0, $1, $2, $3;", "wwww", a* b + c),
    CASE("mad.lo.s64 $0, $1, $2, $3;", "llll", a* b + c),
    CASE("mad.hi.u32 $0, $1, $2, $3;", "wwww", ((a * b) >> 32) + c),
    CASE("mad.hi.s32 $0, $1, $2, $3;", "wwww", ((int64_t{s32(a)} * s32(b)) >> 32) + c),
    CASE("mad.wide.u16 $0, $1, $2, $3;", "whhw", a* b + c),
    CASE("mad.wide.s16 $0, $1, $2, $3;", "whhw", s16(a) * s16(b) + c),
    CASE("mad.wide.u32 $0, $1, $2, $3;", "lwwl", a* b + c),
    CASE("mad.wide.s32 $0, $1, $2, $3;", "lwwl",
         static_cast<uint64_t>(int64_t{s32(a)} * s32(b)) + c),
    CASE("div.u16 $0, $1, $2;", "hhh", b == 0 ? ~uint64_t{0} : a / b),
    CASE("div.s16 $0, $1, $2;", "hhh", b == 0 ? -1 : s16(a) / s16(b)),
    CASE("div.u32 $0, $1, $2;", "www", b == 0 ? ~uint64_t{0} : a / b),
    CASE("div.s32 $0, $1, $2;", "www", b == 0 ? -1 : int64_t{s32(a)} / s32(b)),
    CASE("div.u64 $0, $1, $2;", "lll", b == 0 ? ~uint64_t{0} : a / b),
    CASE("div.s64 $0, $1, $2;", "lll", b == 0 ? i128{-1} : i128{s64(a)} / s64(b)),
    CASE("rem.u16 $0, $1, $2;", "hhh", b == 0 ? a : a % b),
    CASE("rem.s16 $0, $1, $2;", "hhh", b == 0 ? s16(a) : s16(a) % s16(b)),
    CASE("rem.u32 $0, $1, $2;", "www", b == 0 ? a : a % b),
    CASE("rem.s32 $0, $1, $2;", "www", b == 0 ? int64_t{s32(a)} : int64_t{s32(a)} % s32(b)),
    CASE("rem.u64 $0, $1, $2;", "lll", b == 0 ? a : a % b),
    CASE("rem.s64 $0, $1, $2;", "lll", b == 0 ? i128{s64(a)} : i128{s64(a)} % s64(b)),
    CASE("min.u16 $0, $1, $2;", "hhh", std::min(a, b)),
    CASE("min.s16 $0, $1, $2;", "hhh", std::min(s16(a), s16(b))),
    CASE("min.u32 $0, $1, $2;", "www", std::min(a, b)),
    CASE("min.s32 $0, $1, $2;", "www", std::min(s32(a), s32(b))),
    CASE("min.u64 $0, $1, $2;", "lll", std::min(a, b)),
    CASE("min.s64 $0, $1, $2;", "lll", std::min(s64(a), s64(b))),
    CASE("max.u16 $0, $1, $2;", "hhh", std::max(a, b)),
    CASE("max.s16 $0, $1, $2;", "hhh", std::max(s16(a), s16(b))),
    CASE("max.u32 $0, $1, $2;", "www", std::max(a, b)),
    CASE("max.s32 $0, $1, $2;", "www", std::max(s32(a), s32(b))),
    CASE("max.u64 $0, $1, $2;", "lll", std::max(a, b)),
    CASE("max.s64 $0, $1, $2;", "lll", std::max(s64(a), s64(b))),
    CASE("abs.s16 $0, $1;", "hh", s16(a) < 0 ? -s16(a) : s16(a)),
    CASE("abs.s32 $0, $1;", "ww", s32(a) < 0 ? -int64_t{s32(a)} : s32(a)),
    CASE("abs.s64 $0, $1;", "ll", s64(a) < 0 ? 0 - a : a),
    CASE("neg.s16 $0, $1;", "hh", 0 - a),
    CASE("neg.s32 $0, $1;", "ww", 0 - a),
    CASE("neg.s64 $0, $1;", "ll", 0 - a),
    CASE("sad.u32 $0, $1, $2, $3;", "wwww", (a < b ? b - a : a - b) + c),
    CASE("sad.s32 $0, $1, $2, $3;", "wwww", std::abs(int64_t{s32(a)} - s32(b)) + s64(c)),
    CASE("and.b16 $0, $1, $2;", "hhh", a& b),
    CASE("and.b32 $0, $1, $2;", "www", a& b),
    CASE("and.b64 $0, $1, $2;", "lll", a& b),
    CASE("and.pred $0, $1, $2;", "ppp", a& b),
    CASE("or.b16 $0, $1, $2;", "hhh", a | b),
    CASE("or.b32 $0, $1, $2;", "www", a | b),
    CASE("or.b64 $0, $1, $2;", "lll", a | b),
    CASE("or.pred $0, $1, $2;", "ppp", a | b),
    CASE("xor.b16 $0, $1, $2;", "hhh", a ^ b),
    CASE("xor.b32 $0, $1, $2;", "www", a ^ b),
    CASE("xor.b64 $0, $1, $2;", "lll", a ^ b),
    CASE("xor.pred $0, $1, $2;", "ppp", a ^ b),
    CASE("not.b16 $0, $1;", "hh", ~a),
    CASE("not.b32 $0, $1;", "ww", ~a),
    CASE("not.b64 $0, $1;", "ll", ~a),
    CASE("not.pred $0, $1;", "pp", ~a),
    CASE("cnot.b32 $0, $1;", "ww", a == 0),
    CASE("shl.b16 $0, $1, $2;", "hhw", b > 15 ? 0 : a << b),
    CASE("shl.b32 $0, $1, $2;", "www", b > 31 ? 0 : a << b),
    CASE("shl.b64 $0, $1, $2;", "llw", b > 63 ? 0 : a << b),
    CASE("shr.u16 $0, $1, $2;", "hhw", b > 15 ? 0 : a >> b),
    CASE("shr.s16 $0, $1, $2;", "hhw", s16(a) >> std::min<uint64_t>(b, 15)),
    CASE("shr.b32 $0, $1, $2;", "www", b > 31 ? 0 : a >> b),
    CASE("shr.u32 $0, $1, $2;", "www", b > 31 ? 0 : a >> b),
    CASE("shr.s32 $0, $1, $2;", "www", s32(a) >> std::min<uint64_t>(b, 31)),
    CASE("shr.u64 $0, $1, $2;", "llw", b > 63 ? 0 : a >> b),
    CASE("shr.s64 $0, $1, $2;", "llw", s64(a) >> std::min<uint64_t>(b, 63)),
    CASE("shf.l.wrap.b32 $0, $1, $2, $3;", "wwww", ((b << 32 | a) << (c & 31)) >> 32),
    CASE("shf.r.wrap.b32 $0, $1, $2, $3;", "wwww", (b << 32 | a) >> (c & 31)),
    CASE("shf.l.clamp.b32 $0, $1, $2, $3;", "wwww", c > 31 ? a : ((b << 32 | a) << c) >> 32),
    CASE("shf.r.clamp.b32 $0, $1, $2, $3;", "wwww", c > 31 ? b : (b << 32 | a) >> c),
    CASE("bfe.u32 $0, $1, $2, $3;", "wwww", extract(a, 32, false, u32(b), u32(c))),
    CASE("bfe.s32 $0, $1, $2, $3;", "wwww", extract(a, 32, true, u32(b), u32(c))),
    CASE("bfe.u64 $0, $1, $2, $3;", "llww", extract(a, 64, false, u32(b), u32(c))),
    CASE("bfe.s64 $0, $1, $2, $3;", "llww", extract(a, 64, true, u32(b), u32(c))),
    CASE("bfi.b32 $0, $1, $2, $3, $4;", "wwwww", insert(a, b, 32, u32(c), u32(d))),
    CASE("bfi.b64 $0, $1, $2, $3, $4;", "lllww", insert(a, b, 64, u32(c), u32(d))),
    CASE("brev.b32 $0, $1;", "ww", reverse(a, 32)),
    CASE("brev.b64 $0, $1;", "ll", reverse(a, 64)),
    CASE("popc.b32 $0, $1;", "ww", std::popcount(a)),
    CASE("popc.b64 $0, $1;", "wl", std::popcount(a)),
    CASE("clz.b32 $0, $1;", "ww", std::countl_zero(u32(a))),
    CASE("clz.b64 $0, $1;", "wl", std::countl_zero(a)),
    CASE("bfind.u32 $0, $1;", "ww", highest(a, 32)),
    CASE("bfind.s32 $0, $1;", "ww", highest(s32(a) < 0 ? u32(~a) : a, 32)),
    CASE("bfind.u64 $0, $1;", "wl", highest(a, 64)),
    CASE("bfind.shiftamt.u32 $0, $1;", "ww", a == 0 ? ~uint64_t{0} : 31 - highest(a, 32)),
    CASE("prmt.b32 $0, $1, $2, $3;", "wwww", permute(u32(a), u32(b), u32(c))),
    CASE("cvt.pack.sat.s8.s32.b32 $0, $1, $2, $3;", "wwww",
         packed(8, -128, 127, s32(a), s32(b), c)),
    CASE("cvt.pack.sat.u8.s32.b32 $0, $1, $2, $3;", "wwww", packed(8, 0, 255, s32(a), s32(b), c)),
    CASE("cvt.pack.sat.s4.s32.b32 $0, $1, $2, $3;", "wwww", packed(4, -8, 7, s32(a), s32(b), c)),
    CASE("cvt.pack.sat.u4.s32.b32 $0, $1, $2, $3;", "wwww", packed(4, 0, 15, s32(a), s32(b), c)),
    CASE("cvt.pack.sat.s2.s32.b32 $0, $1, $2, $3;", "wwww", packed(2, -2, 1, s32(a), s32(b), c)),
    CASE("cvt.pack.sat.u2.s32.b32 $0, $1, $2, $3;", "wwww", packed(2, 0, 3, s32(a), s32(b), c)),
    CASE("cvt.pack.sat.s16.s32 $0, $1, $2;", "www", packed(16, -32768, 32767, s32(a), s32(b), 0)),
    CASE("cvt.pack.sat.u16.s32 $0, $1, $2;", "www", packed(16, 0, 65535, s32(a), s32(b), 0)),
    CASE("prmt.b32 $0, $1, $2, 0x7632;", "www", permute(u32(a), u32(b), 0x7632)),
    CASE("lop3.b32 $0, $1, $2, $3, 0xe8;", "wwww", lookup(u32(a), u32(b), u32(c), 0xe8)),
    CASE("lop3.b32 $0, $1, $2, $3, 0x6a;", "wwww", lookup(u32(a), u32(b), u32(c), 0x6a)),
    CASE("selp.b16 $0, $1, $2, $3;", "hhhp", c ? a : b),
    CASE("selp.b32 $0, $1, $2, $3;", "wwwp", c ? a : b),
    CASE("selp.b64 $0, $1, $2, $3;", "lllp", c ? a : b),
    CASE("slct.b32.s32 $0, $1, $2, $3;", "wwww", s32(c) >= 0 ? a : b),
    CASE("mov.b16 $0, $1;", "hh", a),
    CASE("mov.b32 $0, $1;", "ww", a),
    CASE("mov.b64 $0, $1;", "ll", a),
    CASE("mov.pred $0, $1;", "pp", a),
    CASE("mov.b32 $0, {$1, $2};", "whh", a | b << 16),
    CASE("mov.b64 $0, {$1, $2};", "lww", a | b << 32),
    CASE("mov.b64 $0, {$1, $2, $3, $4};", "lhhhh", a | b << 16 | c << 32 | d << 48),
    CASE("mov.b32 {_, $0}, $1;", "hw", a >> 16),
    CASE("mov.b64 {$0, _}, $1;", "wl", a),
    CASE("mov.b32 {$0, _}, $1;", "hw", a & 0xffff),
    CASE("mov.b16 $0, {$1, $2};", "hhh", (a & 0xff) | (b & 0xff) << 8),
    CASE("mov.b32 $0, {$1, $2, $3, $1};", "whhh",
         (a & 0xff) | (b & 0xff) << 8 | (c & 0xff) << 16 | (a & 0xff) << 24),
    CASE("mov.b16 {_, $0}, $1;", "hh", a >> 8),
    CASE("mov.b32 {_, _, $0, _}, $1;", "hw", (a >> 16) & 0xff),
    CASE("add.sat.s32 $0, $1, $2;", "www", sat32(i128{s32(a)} + s32(b))),
    CASE("sub.sat.s32 $0, $1, $2;", "www", sat32(i128{s32(a)} - s32(b))),
    CASE("mad.hi.u16 $0, $1, $2, $3;", "hhhh", ((a * b) >> 16) + c),
    CASE("mad.hi.s16 $0, $1, $2, $3;", "hhhh", ((s16(a) * s16(b)) >> 16) + c),
    CASE("mad.hi.u64 $0, $1, $2, $3;", "llll", static_cast<uint64_t>((u128{a} * b) >> 64) + c),
    CASE("mad.hi.s64 $0, $1, $2, $3;", "llll",
         static_cast<uint64_t>((i128{s64(a)} * s64(b)) >> 64) + c),
    CASE("mad.hi.sat.s32 $0, $1, $2, $3;", "wwww", sat32(((i128{s32(a)} * s32(b)) >> 32) + s32(c))),
    CASE("mul24.lo.u32 $0, $1, $2;", "www", low24(a, false) * low24(b, false)),
    CASE("mul24.lo.s32 $0, $1, $2;", "www", low24(a, true) * low24(b, true)),
    CASE("mul24.hi.u32 $0, $1, $2;", "www", (low24(a, false) * low24(b, false)) >> 16),
    CASE("mul24.hi.s32 $0, $1, $2;", "www", (low24(a, true) * low24(b, true)) >> 16),
    CASE("mad24.lo.s32 $0, $1, $2, $3;", "wwww",
         static_cast<uint64_t>(low24(a, true) * low24(b, true)) + c),
    CASE("mad24.hi.u32 $0, $1, $2, $3;", "wwww",
         static_cast<uint64_t>((low24(a, false) * low24(b, false)) >> 16) + c),
    CASE("mad24.hi.s32 $0, $1, $2, $3;", "wwww",
         static_cast<uint64_t>((low24(a, true) * low24(b, true)) >> 16) + c),
    CASE("mad24.hi.sat.s32 $0, $1, $2, $3;", "wwww",
         sat32(i128{s32(static_cast<uint64_t>((low24(a, true) * low24(b, true)) >> 16))} + s32(c))),
    CASE("min.relu.s32 $0, $1, $2;", "www", std::max(0, std::min(s32(a), s32(b)))),
    CASE("max.s32.relu $0, $1, $2;", "www", std::max(0, std::max(s32(a), s32(b)))),
    CASE("sad.u16 $0, $1, $2, $3;", "hhhh", (a < b ? b - a : a - b) + c),
    CASE("sad.s16 $0, $1, $2, $3;", "hhhh", std::abs(s16(a) - s16(b)) + s64(c)),
    CASE("sad.u64 $0, $1, $2, $3;", "llll", (a < b ? b - a : a - b) + c),
    CASE("sad.s64 $0, $1, $2, $3;", "llll", (s64(a) < s64(b) ? b - a : a - b) + c),
    CASE("add.u16x2 $0, $1, $2;", "www", pair(a, b, [](int x, int y) { return x + y; })),
    CASE("add.s16x2 $0, $1, $2;", "www", pair(a, b, [](int x, int y) { return x + y; })),
    CASE("min.u16x2 $0, $1, $2;", "www", pair(a, b, [](int x, int y) { return std::min(x, y); })),
    CASE("max.u16x2 $0, $1, $2;", "www", pair(a, b, [](int x, int y) { return std::max(x, y); })),
    CASE("min.s16x2 $0, $1, $2;", "www",
         pair(a, b, [](int16_t x, int16_t y) { return std::min(x, y); })),
    CASE("max.s16x2 $0, $1, $2;", "www",
         pair(a, b, [](int16_t x, int16_t y) { return std::max(x, y); })),
    CASE("max.relu.s16x2 $0, $1, $2;", "www",
         pair(a, b, [](int16_t x, int16_t y) { return std::max<int>(0, std::max(x, y)); })),
    CASE("min.s16x2.relu $0, $1, $2;", "www",
         pair(a, b, [](int16_t x, int16_t y) { return std::max<int>(0, std::min(x, y)); })),
    CASE("dp4a.u32.u32 $0, $1, $2, $3;", "wwww", dot(a, false, 1, b, false, 0) + s64(c)),
    CASE("dp4a.s32.u32 $0, $1, $2, $3;", "wwww", dot(a, true, 1, b, false, 0) + s64(c)),
    CASE("dp4a.u32.s32 $0, $1, $2, $3;", "wwww", dot(a, false, 1, b, true, 0) + s64(c)),
    CASE("dp4a.s32.s32 $0, $1, $2, $3;", "wwww", dot(a, true, 1, b, true, 0) + s64(c)),
    CASE("dp2a.lo.s32.s32 $0, $1, $2, $3;", "wwww", dot(a, true, 2, b, true, 0) + s64(c)),
    CASE("dp2a.hi.u32.s32 $0, $1, $2, $3;", "wwww", dot(a, false, 2, b, true, 2) + s64(c)),
    CASE("dp2a.hi.s32.u32 $0, $1, $2, $3;", "wwww", dot(a, true, 2, b, false, 2) + s64(c)),
    CASE("dp2a.lo.u32.u32 $0, $1, $2, $3;", "wwww", dot(a, false, 2, b, false, 0) + s64(c)),
    CASE("bfind.s64 $0, $1;", "wl", highest(s64(a) < 0 ? ~a : a, 64)),
    CASE("bfind.shiftamt.s32 $0, $1;", "ww",
         highest(s32(a) < 0 ? u32(~a) : a, 32) == ~uint64_t{0}
             ? ~uint64_t{0}
             : 31 - highest(s32(a) < 0 ? u32(~a) : a, 32)),
    CASE("bfind.shiftamt.u64 $0, $1;", "wl", a == 0 ? ~uint64_t{0} : 63 - highest(a, 64)),
    CASE("bfind.shiftamt.s64 $0, $1;", "wl",
         highest(s64(a) < 0 ? ~a : a, 64) == ~uint64_t{0} ? ~uint64_t{0}
                                                          : 63 - highest(s64(a) < 0 ? ~a : a, 64)),
    CASE("prmt.b32.f4e $0, $1, $2, $3;", "wwww", permute_mode("f4e", a, b, c)),
    CASE("prmt.b32.b4e $0, $1, $2, $3;", "wwww", permute_mode("b4e", a, b, c)),
    CASE("prmt.b32.rc8 $0, $1, $2, $3;", "wwww", permute_mode("rc8", a, b, c)),
    CASE("prmt.b32.ecl $0, $1, $2, $3;", "wwww", permute_mode("ecl", a, b, c)),
    CASE("prmt.b32.ecr $0, $1, $2, $3;", "wwww", permute_mode("ecr", a, b, c)),
    CASE("prmt.b32.rc16 $0, $1, $2, $3;", "wwww", permute_mode("rc16", a, b, c)),
    CASE("szext.clamp.u32 $0, $1, $2;", "www", b > 31 ? a : sign_extend(a, b, false)),
    CASE("szext.clamp.s32 $0, $1, $2;", "www", b > 31 ? a : sign_extend(a, b, true)),
    CASE("szext.wrap.u32 $0, $1, $2;", "www", sign_extend(a, b & 31, false)),
    CASE("szext.wrap.s32 $0, $1, $2;", "www", sign_extend(a, b & 31, true)),
    CASE("bmsk.clamp.b32 $0, $1, $2;", "www", a > 31 ? 0 : bit_mask(a, std::min<uint64_t>(b, 32))),
    CASE("bmsk.wrap.b32 $0, $1, $2;", "www", bit_mask(a & 31, b & 31)),
    CASE("fns.b32 $0, $1, $2, $3;", "wwww", nth_set(a, s32(b), s32(c))),
    CASE("fns.b32 $0, $1, 3, 2;", "ww", nth_set(a, 3, 2)),
    CASE("fns.b32 $0, $1, 30, -3;", "ww", nth_set(a, 30, -3)),
    CASE("cnot.b16 $0, $1;", "hh", a == 0),
    CASE("cnot.b64 $0, $1;", "ll", a == 0),
    CASE("slct.b16.s32 $0, $1, $2, $3;", "hhhw", s32(c) >= 0 ? a : b),
    CASE("slct.b64.s32 $0, $1, $2, $3;", "lllw", s32(c) >= 0 ? a : b),
    // Carries: what a chain leaves is tested, and that only active lanes change their flag.
    CASE("add.cc.u32 $0, $1, $2; addc.u32 $0, $3, 0;", "wwww", c + ((a + b) >> 32)),
    CASE("add.cc.s32 $0, $1, $2;", "www", a + b),
    CASE("add.cc.u64 $0, $1, $2; addc.u64 $0, $3, 0;", "llll",
         c + static_cast<uint64_t>((u128{a} + b) >> 64)),
    CASE("add.cc.u32 $0, $1, $2; addc.cc.u32 $0, $3, $3; addc.u32 $0, 0, 0;", "wwww",
         (c + c + ((a + b) >> 32)) >> 32),
    CASE("add.cc.u64 $0, $1, $2; addc.cc.s64 $0, $3, $3; addc.s64 $0, 0, 0;", "llll",
         (u128{c} + c + ((u128{a} + b) >> 64)) >> 64),
    CASE("sub.cc.u32 $0, $1, $2; subc.u32 $0, $3, 0;", "wwww", c - (a < b)),
    CASE("sub.cc.s64 $0, $1, $2; subc.s64 $0, $3, 0;", "llll", c - (a < b)),
    CASE("sub.cc.u32 $0, $1, $2; subc.cc.u32 $0, $3, $1; subc.u32 $0, 0, 0;", "wwww",
         -static_cast<int64_t>(c < a + (a < b))),
    CASE("sub.cc.u64 $0, $1, $2; subc.cc.u64 $0, $3, $1; subc.u64 $0, 0, 0;", "llll",
         -static_cast<int64_t>(u128{c} < u128{a} + (a < b))),
    CASE("mad.lo.cc.u32 $0, $1, $2, $3; addc.u32 $0, 0, 0;", "wwww", (u32(a * b) + c) >> 32),
    CASE("mad.hi.cc.u32 $0, $1, $2, $3; addc.u32 $0, 0, 0;", "wwww", (((a * b) >> 32) + c) >> 32),
    CASE("mad.hi.cc.s32 $0, $1, $2, $3;", "wwww", ((int64_t{s32(a)} * s32(b)) >> 32) + s64(c)),
    CASE("mad.lo.cc.s64 $0, $1, $2, $3; addc.u64 $0, 0, 0;", "llll", (u128{a * b} + c) >> 64),
    CASE("mad.hi.cc.u64 $0, $1, $2, $3;", "llll", static_cast<uint64_t>((u128{a} * b) >> 64) + c),
    CASE("mad.hi.cc.s64 $0, $1, $2, $3;", "llll",
         static_cast<uint64_t>((i128{s64(a)} * s64(b)) >> 64) + c),
    CASE("add.cc.u32 $0, $1, $2; madc.lo.u32 $0, $1, $2, $3;", "wwww", a* b + c + ((a + b) >> 32)),
    CASE("add.cc.u32 $0, $1, $2; madc.hi.u32 $0, $1, $2, $3;", "wwww",
         ((a * b) >> 32) + c + ((a + b) >> 32)),
    CASE("add.cc.u32 $0, $1, $2; madc.hi.s32 $0, $1, $2, $3;", "wwww",
         ((int64_t{s32(a)} * s32(b)) >> 32) + s64(c) + s64((a + b) >> 32)),
    CASE("add.cc.u32 $0, $1, $2; madc.lo.cc.u32 $0, $1, $2, $3; addc.u32 $0, 0, 0;", "wwww",
         (u32(a * b) + c + ((a + b) >> 32)) >> 32),
    CASE("add.cc.u32 $0, $1, $2; madc.hi.cc.u32 $0, $1, $2, $3; addc.u32 $0, 0, 0;", "wwww",
         (((a * b) >> 32) + c + ((a + b) >> 32)) >> 32),
    CASE("add.cc.u64 $0, $1, $2; madc.lo.u64 $0, $1, $2, $3;", "llll",
         a* b + c + static_cast<uint64_t>((u128{a} + b) >> 64)),
    CASE("add.cc.u64 $0, $1, $2; madc.hi.s64 $0, $1, $2, $3;", "llll",
         static_cast<uint64_t>((i128{s64(a)} * s64(b)) >> 64) + c +
             static_cast<uint64_t>((u128{a} + b) >> 64)),
    CASE("add.s32 $0, $1, -7;", "ww", a - 7),
    CASE("add.s64 $0, $1, -7;", "ll", a - 7),
    CASE("and.b32 $0, $1, 0xFFFFFFF0;", "ww", a & 0xfffffff0u),
};

INSTANTIATE_TEST_SUITE_P(Forms, IntegerTest, testing::ValuesIn(kCases));

// As the CUDA headers write their inline assembly: no space after .reg, and registers of one byte.
TEST(RegisterTest, OfAByteAndDeclaredWithoutASpace) {
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    Buffer<uint32_t> out(*device, {0});
    const Status status = run(*device,
                              kernel_text(".param .u64 p0",
                                          ".reg.b64 %p; .reg .b32 %d; ld.param.u64 %p, [p0];\n"
                                          "{.reg.b8 b; .reg.b16 h; mov.b16 h, 0x1234;\n"
                                          "cvt.u8.u16 b, h; mov.b32 %d, {b, 7, b, 0};}\n"
                                          "st.global.b32 [%p], %d; ret;"),
                              {1, 1}, {out.address()});
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(out[0], 0x00340734u);
  }
}

}  // namespace
}  // namespace lssar::test
