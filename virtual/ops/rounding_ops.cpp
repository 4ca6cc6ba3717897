// Float arithmetic rounded towards zero, down or up. The CPU does it in that rounding mode.
#include "virtual/ops/float_arithmetic.h"
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

using arithmetic::Add, arithmetic::Sub, arithmetic::Mul, arithmetic::Div, arithmetic::Fma;
using arithmetic::Sqrt, arithmetic::Rcp, arithmetic::Ftz, arithmetic::Sat;

// The loop is a function of its own, so that no arithmetic moves across the change of mode.
using Loop = void (*)(Warp&, const Op&);
template <Loop kLoop>
__attribute__((noinline)) void separate(Warp& w, const Op& op) {
  kLoop(w, op);
}

// The two bits of the machine's control word.
constexpr u32 kModes = 0x6000, kDown = 0x2000, kUp = 0x4000, kZero = 0x6000;

template <Loop kLoop, u32 kMode>
void rounded(Warp& w, const Op& op) {
  const u32 saved = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr((saved & ~kModes) | kMode);
  asm volatile("" ::: "memory");
  separate<kLoop>(w, op);
  asm volatile("" ::: "memory");
  __builtin_ia32_ldmxcsr(saved);
}

#define MODES(name, suffix, operands, loop, ...)                                      \
  {name ".rz" suffix, Bind::kAlu, operands, rounded<loop<__VA_ARGS__>, kZero>},       \
      {name ".rm" suffix, Bind::kAlu, operands, rounded<loop<__VA_ARGS__>, kDown>}, { \
    name ".rp" suffix, Bind::kAlu, operands, rounded<loop<__VA_ARGS__>, kUp>          \
  }
#define FTZ_ROWS(name, operands, loop, F) \
  MODES(name, ".f32", operands, loop, F, f32), MODES(name, ".ftz.f32", operands, loop, Ftz<F>, f32)
#define FTZ_SAT_ROWS(name, operands, loop, F)                                              \
  FTZ_ROWS(name, operands, loop, F), MODES(name, ".sat.f32", operands, loop, Sat<F>, f32), \
      MODES(name, ".ftz.sat.f32", operands, loop, Sat<Ftz<F>>, f32)

const Row kRows[] = {
    FTZ_SAT_ROWS("add", "www", binary_of, Add),
    FTZ_SAT_ROWS("sub", "www", binary_of, Sub),
    FTZ_SAT_ROWS("mul", "www", binary_of, Mul),
    FTZ_SAT_ROWS("fma", "wwww", ternary_of, Fma),
    FTZ_SAT_ROWS("mad", "wwww", ternary_of, Fma),
    FTZ_ROWS("div", "www", binary_of, Div),
    FTZ_ROWS("rcp", "ww", unary_of, Rcp),
    FTZ_ROWS("sqrt", "ww", unary_of, Sqrt),
    MODES("add", ".f64", "lll", binary_of, Add, f64),
    MODES("sub", ".f64", "lll", binary_of, Sub, f64),
    MODES("mul", ".f64", "lll", binary_of, Mul, f64),
    MODES("div", ".f64", "lll", binary_of, Div, f64),
    MODES("fma", ".f64", "llll", ternary_of, Fma, f64),
    MODES("mad", ".f64", "llll", ternary_of, Fma, f64),
    MODES("rcp", ".f64", "ll", unary_of, Rcp, f64),
    MODES("sqrt", ".f64", "ll", unary_of, Sqrt, f64),
};

}  // namespace

LSSAR_ROWS(kRoundingRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
