#include "tests/virtual/conformance/conformance_number.h"

#include <algorithm>
#include <bit>

namespace lssar::test {
namespace {

using u128 = unsigned __int128;

int bias(const Format& f) { return (1 << (f.exponent_bits - 1)) - 1; }
int exponent_ones(const Format& f) { return (1 << f.exponent_bits) - 1; }
// A tf32 lies in the upper bits of its register.
int unused_bits(const Format& f) { return f.bits - 1 - f.exponent_bits - f.fraction; }

bool is_zero(const Wide& x) { return x.low == 0 && x.high == 0; }

int length(u128 x) {
  const auto high = static_cast<uint64_t>(x >> 64), low = static_cast<uint64_t>(x);
  return high != 0 ? 64 + static_cast<int>(std::bit_width(high))
                   : static_cast<int>(std::bit_width(low));
}
int length(const Wide& x) { return x.high != 0 ? 128 + length(x.high) : length(x.low); }

Wide shifted_left(const Wide& x, int n) {
  if (n == 0) return x;
  if (n >= 256) return {};
  if (n >= 128) return {0, x.low << (n - 128)};
  return {x.low << n, x.high << n | x.low >> (128 - n)};
}

Wide shifted_right(const Wide& x, int n, bool& lost) {
  if (n == 0) return x;
  if (n >= 256) {
    lost |= !is_zero(x);
    return {};
  }
  const Wide gone = shifted_left(x, 256 - n);
  lost |= !is_zero(gone);
  if (n >= 128) return {x.high >> (n - 128), 0};
  return {x.low >> n | x.high << (128 - n), x.high >> n};
}

int compare_wide(const Wide& a, const Wide& b) {
  if (a.high != b.high) return a.high < b.high ? -1 : 1;
  return a.low == b.low ? 0 : a.low < b.low ? -1 : 1;
}
Wide plus(const Wide& a, const Wide& b) {
  const u128 low = a.low + b.low;
  return {low, a.high + b.high + (low < a.low ? 1 : 0)};
}
Wide minus(const Wide& a, const Wide& b) {
  return {a.low - b.low, a.high - b.high - (a.low < b.low ? 1 : 0)};
}

// The leading one at bit 250, so that no bit of 53 x 53 is lost where it could change a rounding.
constexpr int kTop = 250;
Real normalized(Real x) {
  const int by = kTop - (length(x.m) - 1);
  bool lost = false;
  x.m = by >= 0 ? shifted_left(x.m, by) : shifted_right(x.m, -by, lost);
  if (lost) x.m.low |= 1;
  x.e -= by;
  return x;
}

// Whether the part that is cut off (half: its first bit, more: any of the others) adds one.
bool rounds_up(bool odd, bool half, bool more, bool negative, Round round) {
  switch (round) {
    case Round::kNearest:
      return half && (more || odd);
    case Round::kAway:
      return half;
    case Round::kZero:
      return false;
    case Round::kDown:
      return negative && (half || more);
    case Round::kUp:
      return !negative && (half || more);
  }
  return false;
}

// m / 2^n as an integer.
Wide rounded(const Wide& m, int n, bool negative, Round round) {
  if (n <= 0) return shifted_left(m, -n);
  bool more = false, half = false;
  Wide kept = shifted_right(m, n - 1, more);
  kept = shifted_right(kept, 1, half);
  return rounds_up((kept.low & 1) != 0, half, more, negative, round) ? plus(kept, {1, 0}) : kept;
}

}  // namespace

uint64_t sign_bit(const Format& f) { return uint64_t{1} << (f.bits - 1); }
uint64_t nan_bits(const Format& f) { return sign_bit(f) - 1; }

Real decode(uint64_t bits, const Format& f) {
  bits >>= unused_bits(f);
  const uint64_t fraction = bits & ((uint64_t{1} << f.fraction) - 1);
  const int exponent = static_cast<int>(bits >> f.fraction) & exponent_ones(f);
  Real x;
  x.negative = ((bits >> (f.fraction + f.exponent_bits)) & 1) != 0;
  if (exponent == exponent_ones(f)) {
    x.kind = fraction != 0 ? Real::kNan : Real::kInfinite;
    return x;
  }
  if (exponent == 0 && fraction == 0) return x;
  x.kind = Real::kFinite;
  x.m.low = exponent == 0 ? fraction : fraction | uint64_t{1} << f.fraction;
  x.e = std::max(exponent, 1) - bias(f) - f.fraction;
  return x;
}

uint64_t encode(const Real& x, const Format& f, Round round) {
  const uint64_t sign = x.negative ? sign_bit(f) : 0;
  const auto infinity = static_cast<uint64_t>(exponent_ones(f)) << f.fraction;
  const auto placed = [&](uint64_t magnitude) { return magnitude << unused_bits(f) | sign; };
  if (x.kind == Real::kNan) return nan_bits(f);
  if (x.kind == Real::kZero) return sign;
  if (x.kind == Real::kInfinite) return placed(infinity);
  const int least = 1 - bias(f) - f.fraction;  // exponent of the last place of a subnormal
  int last = std::max(length(x.m) - 1 + x.e - f.fraction, least);
  Wide m = rounded(x.m, last - x.e, x.negative, round);
  if (length(m) > f.fraction + 1) {  // rounded up to a power of two
    bool lost = false;
    m = shifted_right(m, 1, lost);
    ++last;
  }
  const auto kept = static_cast<uint64_t>(m.low);
  if (kept < uint64_t{1} << f.fraction) return placed(kept);
  const int exponent = last + f.fraction + bias(f);
  if (exponent >= exponent_ones(f)) {
    const bool finite = round == Round::kZero || (round == Round::kDown && !x.negative) ||
                        (round == Round::kUp && x.negative);
    return placed(finite ? infinity - 1 : infinity);
  }
  return placed((kept - (uint64_t{1} << f.fraction)) | static_cast<uint64_t>(exponent)
                                                           << f.fraction);
}

Real from_integer(__int128 value) {
  Real x;
  if (value == 0) return x;
  x.kind = Real::kFinite;
  x.negative = value < 0;
  x.m.low = static_cast<u128>(value < 0 ? -value : value);
  return x;
}

__int128 to_integer(const Real& x, Round round) {
  if (x.kind == Real::kZero) return 0;
  const __int128 huge = static_cast<__int128>(1) << 100;
  if (x.kind == Real::kInfinite || length(x.m) + x.e > 100) return x.negative ? -huge : huge;
  const auto m = static_cast<__int128>(rounded(x.m, -x.e, x.negative, round).low);
  return x.negative ? -m : m;
}

Real negated(Real x) {
  x.negative = !x.negative;
  return x;
}
Real magnitude(Real x) {
  x.negative = false;
  return x;
}

Real sum(const Real& a, const Real& b, Round round) {
  if (a.kind == Real::kNan || b.kind == Real::kNan) return {Real::kNan, false, {}, 0};
  if (a.kind == Real::kInfinite && b.kind == Real::kInfinite && a.negative != b.negative) {
    return {Real::kNan, false, {}, 0};
  }
  if (a.kind == Real::kInfinite) return a;
  if (b.kind == Real::kInfinite) return b;
  const Real nothing = {Real::kZero, round == Round::kDown, {}, 0};
  if (a.kind == Real::kZero && b.kind == Real::kZero) return a.negative == b.negative ? a : nothing;
  if (a.kind == Real::kZero) return b;
  if (b.kind == Real::kZero) return a;
  Real x = normalized(a), y = normalized(b);
  if (x.e < y.e || (x.e == y.e && compare_wide(x.m, y.m) < 0)) std::swap(x, y);
  bool lost = false;
  Wide small = shifted_right(y.m, x.e - y.e, lost);
  if (lost) small.low |= 1;
  x.m = x.negative == y.negative ? plus(x.m, small) : minus(x.m, small);
  return is_zero(x.m) ? nothing : x;
}

Real product(const Real& a, const Real& b) {
  Real x = {Real::kNan, a.negative != b.negative, {}, a.e + b.e};
  if (a.kind == Real::kNan || b.kind == Real::kNan) return x;
  if (a.kind == Real::kInfinite || b.kind == Real::kInfinite) {
    if (a.kind != Real::kZero && b.kind != Real::kZero) x.kind = Real::kInfinite;
    return x;
  }
  if (a.kind == Real::kZero || b.kind == Real::kZero) {
    x.kind = Real::kZero;
    return x;
  }
  x.kind = Real::kFinite;
  x.m.low = a.m.low * b.m.low;
  return x;
}

Real quotient(const Real& a, const Real& b) {
  Real x = {Real::kNan, a.negative != b.negative, {}, 0};
  if (a.kind == Real::kNan || b.kind == Real::kNan || a.kind == b.kind) {
    if (a.kind != Real::kFinite || b.kind != Real::kFinite) return x;
  }
  if (a.kind == Real::kInfinite || b.kind == Real::kZero) {
    x.kind = Real::kInfinite;
    return x;
  }
  if (a.kind == Real::kZero || b.kind == Real::kInfinite) {
    x.kind = Real::kZero;
    return x;
  }
  const int by = 126 - length(a.m);
  const u128 dividend = a.m.low << by;
  x.kind = Real::kFinite;
  x.m.low = dividend / b.m.low << 1 | (dividend % b.m.low != 0 ? 1 : 0);
  x.e = a.e - by - b.e - 1;
  return x;
}

Real square_root(const Real& a) {
  if (a.kind == Real::kZero || a.kind == Real::kNan) return a;
  if (a.negative) return {Real::kNan, false, {}, 0};
  if (a.kind == Real::kInfinite) return a;
  int by = 124 - length(a.m);
  if (((a.e - by) & 1) != 0) ++by;
  const u128 square = a.m.low << by;
  u128 root = 0;
  for (int i = 62; i >= 0; --i) {
    const u128 next = root | static_cast<u128>(1) << i;
    if (next * next <= square) root = next;
  }
  Real x = {Real::kFinite, false, {}, (a.e - by) / 2 - 1};
  x.m.low = root << 1 | (root * root != square ? 1 : 0);
  return x;
}

int compare(const Real& a, const Real& b) {
  const Real d = sum(a, negated(b), Round::kNearest);
  if (d.kind == Real::kNan) return 0;  // the same infinity
  return d.kind == Real::kZero ? 0 : d.negative ? -1 : 1;
}

uint64_t flush(uint64_t bits, const Format& f) {
  const auto exponent = static_cast<uint64_t>(exponent_ones(f)) << f.fraction << unused_bits(f);
  return (bits & exponent) == 0 ? bits & sign_bit(f) : bits;
}

double to_double(uint64_t bits, const Format& f) {
  return std::bit_cast<double>(encode(decode(bits, f), kF64, Round::kNearest));
}
uint64_t from_double(double value, const Format& f) {
  return encode(decode(std::bit_cast<uint64_t>(value), kF64), f, Round::kNearest);
}

bool is_nan(uint64_t bits, const Format& f) { return decode(bits, f).kind == Real::kNan; }

}  // namespace lssar::test
