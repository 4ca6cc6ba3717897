// Compares the arithmetic of wgmma with a scalar one. Matrices are put into shared memory element
// by element by the PTX ISA's layouts, registers are filled by its fragment tables. Results are
// equal bit by bit, because products are exact and summed in the order of k.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/virtual/ptx_fixture.h"
#include "virtual/async/matrix_descriptor.h"
#include "virtual/program/opcode_table.h"
#include "virtual/program/program.h"
#include "virtual/program/wgmma.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kSharedBytes = 160 << 10;
constexpr uint32_t kRegisterBytes = 128;

uint32_t element_bytes(WgmmaType type) {
  return type == WgmmaType::kTf32 ? 4 : type == WgmmaType::kF16 || type == WgmmaType::kBf16 ? 2 : 1;
}

float eight_bit_value(uint32_t bits, int exponent_bits, bool has_infinity) {
  const int mantissa_bits = 7 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (has_infinity && exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * INFINITY : NAN;
  }
  if (!has_infinity && (bits & 0x7f) == 0x7f) return NAN;
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
  return sign * std::ldexp(static_cast<float>(mantissa | 1 << mantissa_bits),
                           exponent - bias - mantissa_bits);
}

float value_of(WgmmaType type, uint32_t bits) {
  switch (type) {
    case WgmmaType::kF16:
      return static_cast<float>(test::half_value(static_cast<uint16_t>(bits)));
    case WgmmaType::kBf16:
      return static_cast<float>(test::bfloat_value(static_cast<uint16_t>(bits)));
    case WgmmaType::kTf32:
      return std::bit_cast<float>(bits & 0xffffe000u);
    case WgmmaType::kE4m3:
      return eight_bit_value(bits, 4, false);
    case WgmmaType::kE5m2:
      return eight_bit_value(bits, 5, true);
    case WgmmaType::kS8:
      return static_cast<int8_t>(bits);
    case WgmmaType::kU8:
      return static_cast<float>(bits & 0xff);
  }
  return NAN;
}

// Finite, in a range that neither overflows nor underflows when multiplied; includes subnormals of
// the narrow types.
uint32_t random_element(WgmmaType type, std::mt19937& random) {
  while (true) {
    uint32_t bits = random();
    if (type == WgmmaType::kTf32) bits = (bits & 0x83ffffffu) + 0x3e000000u;
    if (type == WgmmaType::kBf16) bits = (bits & 0x83ffu) + 0x3e00u;
    if (element_bytes(type) == 2) bits &= 0xffffu;
    if (element_bytes(type) == 1) bits &= 0xffu;
    if (std::isfinite(value_of(type, bits))) return bits;
  }
}

// Rows x (32 bytes of columns), as raw elements.
struct Matrix {
  WgmmaType type;
  uint32_t rows;
  std::vector<uint32_t> bits;
  uint32_t depth() const { return 32 / element_bytes(type); }
  uint32_t& at(uint32_t row, uint32_t k) { return bits[row * depth() + k]; }
  float value(uint32_t row, uint32_t k) const { return value_of(type, bits[row * depth() + k]); }
};

Matrix random_matrix(WgmmaType type, uint32_t rows, std::mt19937& random) {
  Matrix m{type, rows, {}};
  m.bits.resize(rows * m.depth());
  for (uint32_t& bits : m.bits) bits = random_element(type, random);
  return m;
}

struct Layout {
  bool mn_major = false;
  uint32_t swizzle = 0;  // as in the descriptor
  uint32_t start = 0;
  uint32_t leading = 0;
  uint32_t stride = 0;
  uint64_t descriptor() const {
    return uint64_t{start >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 |
           uint64_t{swizzle} << 62;
  }
};

// Byte address of an element: the swizzle atoms of the PTX ISA.
uint32_t address_of(const Layout& layout, uint32_t bytes, uint32_t row, uint32_t k) {
  const uint32_t width = layout.swizzle == 1   ? 128
                         : layout.swizzle == 2 ? 64
                         : layout.swizzle == 3 ? 32
                                               : 16;
  uint32_t address = layout.start;
  if (layout.mn_major) {
    const uint32_t per_width = width / bytes;  // rows that lie side by side
    const uint32_t to_rows = layout.swizzle == 0 ? layout.stride : layout.leading;
    const uint32_t to_columns = layout.swizzle == 0 ? layout.leading : layout.stride;
    address += row % per_width * bytes + row / per_width * to_rows;
    address += k % 8 * width + k / 8 * to_columns;
  } else {
    address += row % 8 * width + row / 8 * layout.stride;
    const uint32_t byte = k * bytes;
    address += layout.swizzle == 0 ? byte % 16 + byte / 16 * layout.leading : byte;
  }
  const uint32_t pattern_row = address / 128 % (width / 16);
  return address ^ pattern_row * 16;
}

void put(const Matrix& m, const Layout& layout, std::vector<uint8_t>& shared) {
  const uint32_t bytes = element_bytes(m.type);
  for (uint32_t row = 0; row < m.rows; ++row) {
    for (uint32_t k = 0; k < m.depth(); ++k) {
      const uint32_t address = address_of(layout, bytes, row, k);
      ASSERT_LE(address + bytes, shared.size());
      std::memcpy(shared.data() + address, &m.bits[row * m.depth() + k], bytes);
    }
  }
}

// Distances that leave gaps, and a start that is a step of K inside the atom if possible.
Layout layout_for(bool mn_major, uint32_t swizzle, uint32_t base, uint32_t rows, uint32_t step) {
  const uint32_t width = swizzle == 1 ? 128 : swizzle == 2 ? 64 : swizzle == 3 ? 32 : 16;
  Layout layout{.mn_major = mn_major, .swizzle = swizzle, .start = base};
  if (mn_major) {
    const uint32_t atom = 8 * width;
    layout.stride = swizzle == 0 ? 2 * atom : atom;
    layout.leading = swizzle == 0 ? atom : 2 * atom;
  } else if (swizzle == 0) {
    layout.leading = rows * 16 + 128;
    layout.stride = 128;
  } else {
    layout.start += 32 * step % width;
    layout.stride = 8 * width;
  }
  return layout;
}

enum class PlaceOfA { kRegisters, kKMajor, kMnMajor };

struct Case {
  WgmmaType a_type;
  WgmmaType b_type;
  uint32_t n = 64;
  PlaceOfA place_of_a = PlaceOfA::kRegisters;
  uint32_t a_swizzle = 1;
  bool b_mn_major = false;
  uint32_t b_swizzle = 1;
  uint32_t step = 0;
  bool half_sums = false;
  bool accumulate = true;
  bool negate = false;
  uint32_t num_warps = 4;
};

// Register r of lane `lane`, element i within it: from the fragment tables of the PTX ISA, where
// element e of a thread is element i of register r.
void locate_a(uint32_t bytes, uint32_t r, uint32_t lane, uint32_t i, uint32_t& row, uint32_t& k) {
  const uint32_t group = lane >> 2;
  const uint32_t thread = lane % 4;
  const uint32_t e = r * (4 / bytes) + i;
  if (bytes == 2) {
    row = e < 2 || (e >= 4 && e < 6) ? group : group + 8;
    k = thread * 2 + (e & 1) + (e >= 4 ? 8 : 0);
  } else if (bytes == 4) {
    row = e == 0 || e == 2 ? group : group + 8;
    k = thread + (e >= 2 ? 4 : 0);
  } else {
    row = e < 4 || (e >= 8 && e < 12) ? group : group + 8;
    k = thread * 4 + (e & 3) + (e >= 8 ? 16 : 0);
  }
}
void locate_d(uint32_t i, uint32_t lane, uint32_t& row, uint32_t& column) {
  row = (lane >> 2) + (i % 4 < 2 ? 0 : 8);
  column = lane % 4 * 2 + (i & 1) + 8 * (i / 4);
}

class Machine {
 public:
  Machine(const Case& c, std::mt19937& random)
      : c_(c),
        a_(random_matrix(c.a_type, 64, random)),
        b_(random_matrix(c.b_type, c.n, random)),
        shared_(kSharedBytes, 0xff),
        registers_(4, std::vector<uint32_t>(num_registers() * 32, 0xffffffffu)) {
    a_layout_ = layout_for(c.place_of_a == PlaceOfA::kMnMajor, c.a_swizzle, 3 * 1024, 64, c.step);
    b_layout_ = layout_for(c.b_mn_major, c.b_swizzle, 33 * 1024, c.n, c.step);
    if (c.place_of_a != PlaceOfA::kRegisters) put(a_, a_layout_, shared_);
    put(b_, b_layout_, shared_);
    fill_registers(random);
  }

  void run(SimdLevel level) {
    std::vector<std::vector<uint32_t>> registers = registers_;
    execute(level, registers);
    for (uint32_t w = 0; w < 4; ++w) check(registers[w], w);
  }

  Matrix& a() { return a_; }
  Matrix& b() { return b_; }
  void put_again() { put(b_, b_layout_, shared_); }

 private:
  uint32_t num_sums() const { return c_.n / (c_.half_sums ? 4 : 2); }
  uint32_t num_registers() const { return num_sums() + 4; }
  // Registers of D are in reverse order, so that a handler that ignores their places fails.
  uint32_t place(uint32_t i) const { return i < num_sums() ? num_sums() - 1 - i : i; }

  void fill_registers(std::mt19937& random) {
    std::uniform_real_distribution<float> sums(-4.0f, 4.0f);
    const uint32_t bytes = element_bytes(c_.a_type);
    for (uint32_t w = 0; w < 4; ++w) {
      for (uint32_t i = 0; i < num_sums() * 32; ++i) {
        uint32_t bits = std::bit_cast<uint32_t>(sums(random));
        if (c_.half_sums) {
          bits = test::half_bits(sums(random)) | uint32_t{test::half_bits(sums(random))} << 16;
        }
        registers_[w][i] = bits;
      }
      if (c_.place_of_a != PlaceOfA::kRegisters) continue;
      for (uint32_t r = 0; r < 4; ++r) {
        for (uint32_t lane = 0; lane < 32; ++lane) {
          uint32_t bits = 0;
          for (uint32_t i = 0; i < 4 / bytes; ++i) {
            uint32_t row = 0, k = 0;
            locate_a(bytes, r, lane, i, row, k);
            bits |= a_.at(16 * w + row, k) << (8 * bytes * i);
          }
          registers_[w][(num_sums() + r) * 32 + lane] = bits;
        }
      }
    }
  }

  void execute(SimdLevel level, std::vector<std::vector<uint32_t>>& registers) {
    std::vector<uint32_t> d(num_sums()), a(4), b_chunks(2 * c_.n);
    for (uint32_t i = 0; i < num_sums(); ++i) d[i] = place(i) * kRegisterBytes;
    for (uint32_t i = 0; i < 4; ++i) a[i] = (num_sums() + i) * kRegisterBytes;
    MatrixDescriptor descriptor;
    ASSERT_EQ(decode_matrix_descriptor(b_layout_.descriptor(), descriptor), nullptr);
    find_matrix_chunks(descriptor, c_.b_mn_major, 0, c_.n, b_chunks.data());
    ASSERT_EQ(decode_matrix_descriptor(a_layout_.descriptor(), descriptor), nullptr);

    const bool from_registers = c_.place_of_a == PlaceOfA::kRegisters;
    WgmmaCall call = {};
    call.a_type = c_.a_type;
    call.b_type = c_.b_type;
    call.half_sums = c_.half_sums;
    call.accumulate = c_.accumulate;
    call.negate = c_.negate;
    call.a_mn_major = c_.place_of_a == PlaceOfA::kMnMajor;
    call.b_mn_major = c_.b_mn_major;
    call.n = c_.n;
    call.shared = shared_.data();
    call.b_chunks = b_chunks.data();
    call.d_registers = d.data();
    call.a_registers = from_registers ? a.data() : nullptr;
    call.num_warps = c_.num_warps;
    // 64-byte aligned copies, as a warp's registers are.
    std::vector<std::vector<uint8_t>> storage(4);
    uint8_t* aligned[4];
    uint32_t chunks[4][kWgmmaChunksOfA];
    const size_t bytes = registers[0].size() * 4;
    for (uint32_t w = 0; w < 4; ++w) {
      storage[w].resize(bytes + 64);
      aligned[w] = storage[w].data() + (64 - reinterpret_cast<uintptr_t>(storage[w].data()) % 64);
      std::memcpy(aligned[w], registers[w].data(), bytes);
      find_matrix_chunks(descriptor, call.a_mn_major, 16 * w, 16, chunks[w]);
      call.warps[w] = {aligned[w], aligned[w], chunks[w]};
    }
    opcode_table(level).handlers().wgmma(call);
    for (uint32_t w = 0; w < 4; ++w) std::memcpy(registers[w].data(), aligned[w], bytes);
  }

  float before(uint32_t w, uint32_t i, uint32_t lane) const {
    if (!c_.half_sums) return std::bit_cast<float>(registers_[w][place(i) * 32 + lane]);
    const uint32_t bits = registers_[w][place(i / 2) * 32 + lane];
    return static_cast<float>(test::half_value(static_cast<uint16_t>(bits >> 16 * (i & 1))));
  }

  void check(const std::vector<uint32_t>& after, uint32_t w) const {
    int wrong = 0;
    for (uint32_t i = 0; i < c_.n / 2; ++i) {
      for (uint32_t lane = 0; lane < 32; ++lane) {
        uint32_t row = 0, column = 0;
        locate_d(i, lane, row, column);
        uint32_t got = after[place(c_.half_sums ? i / 2 : i) * 32 + lane];
        if (c_.half_sums) got = got >> 16 * (i & 1) & 0xffff;
        const uint32_t want = expected(w, i, lane, row, column);
        const bool same_nan = is_nan(got) && is_nan(want);
        if (got != want && !same_nan && ++wrong <= 3) {
          ADD_FAILURE() << std::hex << "warp " << w << " row " << row << " column " << column
                        << ": " << got << ", not " << want;
        }
      }
    }
    EXPECT_EQ(wrong, 0);
    for (uint32_t i = num_sums() * 32; i < after.size(); ++i) {
      ASSERT_EQ(after[i], registers_[w][i]) << "a register of A was written";
    }
  }
  bool is_nan(uint32_t bits) const {
    return c_.half_sums ? (bits & 0x7fff) > 0x7c00 : std::isnan(std::bit_cast<float>(bits));
  }

  uint32_t expected(uint32_t w, uint32_t i, uint32_t lane, uint32_t row, uint32_t column) const {
    if (w >= c_.num_warps) {
      const float same = before(w, i, lane);
      return c_.half_sums ? test::half_bits(same) : std::bit_cast<uint32_t>(same);
    }
    float sum = c_.accumulate ? before(w, i, lane) : 0.0f;
    for (uint32_t k = 0; k < a_.depth(); ++k) {
      const float x = a_.value(16 * w + row, k);
      sum = std::fma(c_.negate ? -x : x, b_.value(column, k), sum);
    }
    if (!c_.half_sums) return std::bit_cast<uint32_t>(sum);
    return std::isnan(sum) ? 0x7fffu : test::half_bits(sum);
  }

  Case c_;
  Matrix a_, b_;
  Layout a_layout_, b_layout_;
  std::vector<uint8_t> shared_;  // NaN where no matrix lies
  std::vector<std::vector<uint32_t>> registers_;
};

void check_case(const Case& c) {
  SCOPED_TRACE(::testing::Message()
               << "types " << static_cast<int>(c.a_type) << " " << static_cast<int>(c.b_type)
               << " n " << c.n << " A " << static_cast<int>(c.place_of_a) << " swizzle "
               << c.a_swizzle << ", B mn-major " << c.b_mn_major << " swizzle " << c.b_swizzle
               << " step " << c.step);
  std::mt19937 random(c.n * 31 + c.a_swizzle * 7 + c.b_swizzle + c.step);
  Machine machine(c, random);
  for (const SimdLevel level : test::levels()) {
    SCOPED_TRACE(simd_level_name(level));
    machine.run(level);
  }
}

class WgmmaMathTest : public ::testing::TestWithParam<WgmmaType> {
 protected:
  WgmmaType type() const { return GetParam(); }
  bool sixteen_bits() const { return element_bytes(type()) == 2; }
};
class Wgmma16BitTest : public WgmmaMathTest {};
class Wgmma8BitTest : public WgmmaMathTest {};
class WgmmaHalfSumsTest : public WgmmaMathTest {};

TEST_P(WgmmaMathTest, EveryWidth) {
  for (uint32_t n = 8; n <= 256; n += 8) {
    check_case({.a_type = type(), .b_type = type(), .n = n});
  }
}

TEST_P(Wgmma16BitTest, EveryWidthMnMajor) {
  for (uint32_t n = 8; n <= 256; n += 8) {
    check_case({.a_type = type(),
                .b_type = type(),
                .n = n,
                .place_of_a = PlaceOfA::kMnMajor,
                .b_mn_major = true});
  }
}

TEST_P(WgmmaMathTest, EveryLayoutOfB) {
  for (const uint32_t n : {8u, 40u, 96u, 136u, 256u}) {
    for (uint32_t swizzle = 0; swizzle < 4; ++swizzle) {
      for (uint32_t step = 0; step < 4; ++step) {
        check_case(
            {.a_type = type(), .b_type = type(), .n = n, .b_swizzle = swizzle, .step = step});
      }
      if (!sixteen_bits()) continue;
      check_case(
          {.a_type = type(), .b_type = type(), .n = n, .b_mn_major = true, .b_swizzle = swizzle});
    }
  }
}

TEST_P(WgmmaMathTest, EveryLayoutOfA) {
  for (uint32_t swizzle = 0; swizzle < 4; ++swizzle) {
    for (uint32_t step = 0; step < 4; ++step) {
      check_case({.a_type = type(),
                  .b_type = type(),
                  .n = 24,
                  .place_of_a = PlaceOfA::kKMajor,
                  .a_swizzle = swizzle,
                  .step = step});
    }
    if (!sixteen_bits()) continue;
    check_case({.a_type = type(),
                .b_type = type(),
                .n = 24,
                .place_of_a = PlaceOfA::kMnMajor,
                .a_swizzle = swizzle});
  }
}

TEST_P(WgmmaMathTest, WithoutTheSumsThatWere) {
  check_case({.a_type = type(), .b_type = type(), .accumulate = false});
}

TEST_P(WgmmaMathTest, NegatedProducts) {
  check_case({.a_type = type(), .b_type = type(), .negate = true});
  check_case({.a_type = type(), .b_type = type(), .place_of_a = PlaceOfA::kKMajor, .negate = true});
}

TEST_P(WgmmaMathTest, OnlyTheWarpsThatCame) {
  for (uint32_t warps = 1; warps < 4; ++warps) {
    check_case(
        {.a_type = type(), .b_type = type(), .place_of_a = PlaceOfA::kKMajor, .num_warps = warps});
  }
}

TEST_P(WgmmaHalfSumsTest, SumsInHalf) {
  for (const uint32_t n : {8u, 24u, 128u, 256u}) {
    check_case({.a_type = type(), .b_type = type(), .n = n, .half_sums = true});
    check_case({.a_type = type(),
                .b_type = type(),
                .n = n,
                .half_sums = true,
                .accumulate = false,
                .negate = true});
  }
}

// Infinities and NaNs, and e4m3's 0x7f, reach exactly the sums that they belong to.
TEST_P(Wgmma8BitTest, EveryElement) {
  const Case c{.a_type = type(), .b_type = type(), .n = 256, .accumulate = false};
  std::mt19937 random(5);
  Machine machine(c, random);
  for (uint32_t row = 0; row < 256; ++row) {
    for (uint32_t k = 0; k < 32; ++k) machine.b().at(row, k) = k == row % 32 ? row : 0;
  }
  machine.put_again();
  for (const SimdLevel level : test::levels()) machine.run(level);
}

INSTANTIATE_TEST_SUITE_P(Types, WgmmaMathTest,
                         ::testing::Values(WgmmaType::kF16, WgmmaType::kBf16, WgmmaType::kTf32,
                                           WgmmaType::kE4m3, WgmmaType::kE5m2));
INSTANTIATE_TEST_SUITE_P(Types, Wgmma16BitTest,
                         ::testing::Values(WgmmaType::kF16, WgmmaType::kBf16));
INSTANTIATE_TEST_SUITE_P(Types, Wgmma8BitTest,
                         ::testing::Values(WgmmaType::kE4m3, WgmmaType::kE5m2));
INSTANTIATE_TEST_SUITE_P(Types, WgmmaHalfSumsTest,
                         ::testing::Values(WgmmaType::kF16, WgmmaType::kE4m3, WgmmaType::kE5m2));

TEST(WgmmaMathMixedTest, EightBitTypesMayDiffer) {
  for (const bool e5_first : {false, true}) {
    const WgmmaType a = e5_first ? WgmmaType::kE5m2 : WgmmaType::kE4m3;
    const WgmmaType b = e5_first ? WgmmaType::kE4m3 : WgmmaType::kE5m2;
    check_case({.a_type = a, .b_type = b, .n = 48});
    check_case({.a_type = a, .b_type = b, .n = 48, .place_of_a = PlaceOfA::kKMajor});
  }
}

}  // namespace
}  // namespace lssar::vdev
