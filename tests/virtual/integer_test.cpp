// Integer instructions against scalar C++.
#include <gtest/gtest.h>

#include <bit>

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
    CASE("add.s32 $0, $1, -7;", "ww", a - 7),
    CASE("add.s64 $0, $1, -7;", "ll", a - 7),
    CASE("and.b32 $0, $1, 0xFFFFFFF0;", "ww", a & 0xfffffff0u),
};

INSTANTIATE_TEST_SUITE_P(Forms, IntegerTest, testing::ValuesIn(kCases));

}  // namespace
}  // namespace lssar::test
