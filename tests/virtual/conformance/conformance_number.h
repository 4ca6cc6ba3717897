// Exact floating-point numbers of any format: the scalar implementation that the conformance tests
// compare the device with. It only uses integers, so nothing depends on the machine's own
// arithmetic. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace lssar::test {

struct Format {
  int bits;
  int fraction;
  int exponent_bits;
};
inline constexpr Format kF16 = {16, 10, 5};
inline constexpr Format kBf16 = {16, 7, 8};
inline constexpr Format kTf32 = {32, 10, 8};  // in the upper 19 bits of 32
inline constexpr Format kF32 = {32, 23, 8};
inline constexpr Format kF64 = {64, 52, 11};

enum class Round { kNearest, kZero, kDown, kUp, kAway };  // kAway: to nearest, ties away from zero

// 256 bits, the least significant first.
struct Wide {
  unsigned __int128 low = 0, high = 0;
};

struct Real {
  enum Kind { kZero, kFinite, kInfinite, kNan } kind = kZero;
  bool negative = false;
  Wide m;  // of kFinite: value = m * 2^e
  int e = 0;
};

Real decode(uint64_t bits, const Format& format);
// A number that is too large becomes infinite or, if the rounding says so, the largest finite one.
uint64_t encode(const Real& x, const Format& format, Round round);
Real from_integer(__int128 value);
// Rounds to an integer in one direction. Huge values become 2^100. REQUIRES: a number.
__int128 to_integer(const Real& x, Round round);

Real negated(Real x);
Real magnitude(Real x);
// The sign of an exact zero depends on the rounding direction.
Real sum(const Real& a, const Real& b, Round round);
Real product(const Real& a, const Real& b);
Real quotient(const Real& a, const Real& b);  // with a last bit that stands for all that follow
Real square_root(const Real& a);              // likewise

// -1, 0, 1; zeros are equal. REQUIRES: no NaN.
int compare(const Real& a, const Real& b);

// Subnormal bits become a zero of their sign.
uint64_t flush(uint64_t bits, const Format& format);
bool is_nan(uint64_t bits, const Format& format);
double to_double(uint64_t bits, const Format& format);
uint64_t from_double(double value, const Format& format);  // to nearest
uint64_t sign_bit(const Format& format);
uint64_t nan_bits(const Format& format);  // the one that PTX produces: all ones but the sign

}  // namespace lssar::test
