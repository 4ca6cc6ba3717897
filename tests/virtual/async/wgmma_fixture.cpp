#include "tests/virtual/async/wgmma_fixture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lssar::test::wgmma {
namespace {

uint32_t encode(Element e, int value) {
  switch (e) {
    case Element::kF16:
      return half_bits(value);
    case Element::kBf16:
      return bfloat_bits(value);
    case Element::kTf32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case Element::kS8:
    case Element::kU8:
      return static_cast<uint32_t>(value) & 0xff;
    case Element::kE4m3:
      break;
  }
  const auto magnitude = static_cast<uint32_t>(std::abs(value));
  if (magnitude == 0) return 0;
  const auto exponent = static_cast<uint32_t>(std::bit_width(magnitude)) - 1;
  return (value < 0 ? 0x80u : 0u) | (exponent + 7) << 3 | ((magnitude << 3 >> exponent) & 7);
}

uint32_t swizzled(uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

uint32_t address_of(Layout layout, uint32_t rows, uint32_t start, uint32_t row, uint32_t byte) {
  switch (layout) {
    case Layout::kKMajor:
      return swizzled(start + row * 128 + byte);
    case Layout::kKMajorPlain:
      return start + byte / 16 * rows * 16 + row * 16 + byte % 16;
    default:  // of 16-bit elements
      const uint32_t k = byte / 2;
      return swizzled(start + row / 64 * 8192 + k * 128 + row % 64 * 2) + byte % 2;
  }
}

uint64_t descriptor(Layout layout, uint32_t rows, uint32_t start, uint32_t step) {
  const auto bits = [](uint64_t at, uint64_t leading, uint64_t stride, uint64_t swizzle) {
    return at >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62;
  };
  switch (layout) {
    case Layout::kKMajor:
      return bits(start + 32 * step, 16, 1024, 1);
    case Layout::kKMajorPlain:
      return bits(start + 2 * step * rows * 16, rows * 16, 128, 0);
    default:
      return bits(start + 2048 * step, 8192, 1024, 1);
  }
}

std::string list(const char* prefix, uint32_t first, uint32_t count) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) {
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", prefix, first + i);
  }
  return text + "}";
}

}  // namespace

uint32_t bytes_of(Element e) {
  return e == Element::kTf32 ? 4 : e == Element::kF16 || e == Element::kBf16 ? 2 : 1;
}
const char* name_of(Element e) {
  return e == Element::kF16    ? "f16"
         : e == Element::kBf16 ? "bf16"
         : e == Element::kTf32 ? "tf32"
         : e == Element::kS8   ? "s8"
         : e == Element::kU8   ? "u8"
                               : "e4m3";
}

Operands::Operands(const Product& p, int seed) : p_(p), image_(kSharedBytes / 4, 0) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  // Small numbers, so that all sums are exact; integers from the whole range.
  const auto fill = [&](std::vector<int>& m, Element type, uint32_t count) {
    m.resize(count);
    for (int& v : m) {
      v = type == Element::kS8   ? static_cast<int>(random() % 256) - 128
          : type == Element::kU8 ? static_cast<int>(random() % 256)
                                 : static_cast<int>(random() % 7) - 3;
    }
  };
  const uint32_t depth = p.depth() * p.steps;
  fill(a_, p.type, 64 * depth);
  fill(b_, p.b_type, p.n * depth);
  fill(d_, p.type, 64 * p.n);
  constexpr int kMost = std::numeric_limits<int>::max();
  for (int& d : d_) {
    if (p.is_integer()) d = random() % 2 == 0 ? kMost - std::abs(d) : -kMost + std::abs(d);
  }
  if (p.a != Layout::kRegisters) put(a_, p.type, p.a, 64, kPlaceOfA);
  put(b_, p.b_type, p.b, p.n, kPlaceOfB);
  fill_registers();
}

std::vector<uint32_t> Operands::after() const {
  std::vector<int> sums = d_;
  const uint32_t depth = p_.depth() * p_.steps;
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t column = 0; column < p_.n; ++column) {
      int64_t sum = p_.accumulate ? sums[row * p_.n + column] : 0;
      for (uint32_t k = 0; k < depth; ++k) {
        sum += a_[row * depth + k] * b_[column * depth + k];
        if (!p_.saturate || (k + 1) % p_.depth() != 0) continue;
        sum = std::clamp<int64_t>(sum, std::numeric_limits<int>::min(),
                                  std::numeric_limits<int>::max());
      }
      sums[row * p_.n + column] = static_cast<int>(sum);  // the low 32 bits
    }
  }
  return sum_bits(sums);
}

void Operands::put(const std::vector<int>& m, Element type, Layout layout, uint32_t rows,
                   uint32_t start) {
  const uint32_t bytes = bytes_of(p_.type);
  const uint32_t depth = p_.depth() * p_.steps;
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t k = 0; k < depth; ++k) {
      const uint32_t bits = encode(type, m[row * depth + k]);
      std::memcpy(reinterpret_cast<uint8_t*>(image_.data()) +
                      address_of(layout, rows, start, row, k * bytes),
                  &bits, bytes);
    }
  }
}

void Operands::fill_registers() {
  const uint32_t per_word = 4 / bytes_of(p_.type);
  const uint32_t depth = p_.depth() * p_.steps;
  for (uint32_t i = 0; i < 4 * p_.steps; ++i) {
    for (uint32_t t = 0; t < kThreads; ++t) {
      const uint32_t row = 16 * (t / 32) + t % 32 / 4 + 8 * (i & 1);
      const uint32_t byte = i / 4 * kDepthBytes + (i % 4 / 2) * 16 + t % 4 * 4;
      uint32_t word = 0;
      for (uint32_t e = 0; e < per_word; ++e) {
        const uint32_t k = byte / bytes_of(p_.type) + e;
        word |= encode(p_.type, a_[row * depth + k]) << (32 / per_word * e);
      }
      registers_.push_back(word);
    }
  }
}

std::vector<uint32_t> Operands::sum_bits(const std::vector<int>& sums) const {
  std::vector<uint32_t> bits;
  for (uint32_t i = 0; i < p_.num_sums(); ++i) {
    const uint32_t half = p_.half_sums ? i & 1 : i >> 1 & 1;
    const uint32_t block = i / (p_.half_sums ? 2 : 4);
    for (uint32_t t = 0; t < kThreads; ++t) {
      const uint32_t row = 16 * (t / 32) + t % 32 / 4 + 8 * half;
      const int* const at = &sums[row * p_.n + 8 * block + t % 4 * 2];
      if (p_.is_integer()) {
        bits.push_back(static_cast<uint32_t>(at[i & 1]));
        continue;
      }
      bits.push_back(p_.half_sums ? half_bits(at[0]) | static_cast<uint32_t>(half_bits(at[1])) << 16
                                  : std::bit_cast<uint32_t>(static_cast<float>(at[i & 1])));
    }
  }
  return bits;
}

// The wgmma of one step; its descriptors are literals in registers %da, %db.
std::string wgmma_text(const Product& p, uint32_t step, const char* sums) {
  const bool transposes = bytes_of(p.type) == 2;
  std::string text;
  if (p.a != Layout::kRegisters) {
    text += fmt::format("mov.b64 %da, {};\n", descriptor(p.a, 64, kPlaceOfA, step));
  }
  text += fmt::format("mov.b64 %db, {};\n", descriptor(p.b, p.n, kPlaceOfB, step));
  text += fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}{}.{}.{}.{} {}, ", p.n, p.depth(),
                      p.saturate ? ".satfinite" : "",
                      p.is_integer() ? "s32"
                      : p.half_sums  ? "f16"
                                     : "f32",
                      name_of(p.type), name_of(p.b_type), list(sums, 0, p.num_sums()));
  text += p.a == Layout::kRegisters ? list("%a", 4 * step, 4) : "%da";
  text += fmt::format(", %db, {}", step == 0 && !p.accumulate ? "%never" : "%always");
  if (!p.is_integer()) text += ", 1, 1";
  if (transposes && p.a != Layout::kRegisters) text += p.a == Layout::kMnMajor ? ", 1" : ", 0";
  if (transposes) text += p.b == Layout::kMnMajor ? ", 1" : ", 0";
  return text + ";\n";
}

// Everything before the products: shared memory is filled, registers of A and D are loaded.
std::string prologue(const Product& p) {
  std::string text =
      ".reg .b32 %d<128>, %e<128>, %a<64>, %t, %s, %w, %x;\n"
      ".reg .b64 %da, %db, %g, %at, %out, %wide;\n"
      ".reg .pred %always, %never, %more;\n"
      "mov.u32 %t, %tid.x; mul.wide.u32 %wide, %t, 4;\n"
      "setp.eq.u32 %always, 0, 0; setp.ne.u32 %never, 0, 0;\n"
      "ld.param.u64 %g, [p0]; add.u64 %g, %g, %wide; cvt.u32.u64 %s, %wide;\n"
      "FILL: ld.global.u32 %w, [%g]; st.shared.u32 [%s], %w;\n"
      "add.u64 %g, %g, 512; add.u32 %s, %s, 512;\n";
  text += fmt::format("setp.lt.u32 %more, %s, {}; @%more bra FILL;\n", kSharedBytes);
  text += "ld.param.u64 %g, [p1]; add.u64 %g, %g, %wide;\n";
  for (uint32_t i = 0; p.a == Layout::kRegisters && i < 4 * p.steps; ++i) {
    text += fmt::format("ld.global.u32 %a{}, [%g + {}];\n", i, i * kThreads * 4);
  }
  text += "ld.param.u64 %g, [p2]; add.u64 %g, %g, %wide;\n";
  for (uint32_t i = 0; i < p.num_sums(); ++i) {
    text += fmt::format("ld.global.u32 %d{}, [%g + {}];\n", i, i * kThreads * 4);
  }
  return text + kProxyFence + kBarrier;
}
std::string steps_text(const Product& p, const char* sums) {
  std::string text;
  for (uint32_t i = 0; i < p.steps; ++i) text += wgmma_text(p, i, sums);
  return text;
}
std::string epilogue(const Product& p) {
  std::string text = "ld.param.u64 %out, [p3]; add.u64 %out, %out, %wide;\n";
  for (uint32_t i = 0; i < p.num_sums(); ++i) {
    text += fmt::format("st.global.u32 [%out + {}], %d{};\n", i * kThreads * 4, i);
  }
  return text + "ret;\n";
}
std::string product_text(const Product& p) {
  return prologue(p) + kFence + steps_text(p) + kCommit + kWait + epilogue(p);
}

Outcome run_text(const VirtualOptions& options, const Operands& operands, const std::string& text,
                 uint32_t threads) {
  const auto device = make_virtual_device(options);
  const std::vector<uint32_t> sums = operands.before();
  const Buffer<uint32_t> image(*device, operands.image());
  const Buffer<uint32_t> a(*device, operands.registers());
  const Buffer<uint32_t> before(*device, sums);
  const Buffer<uint32_t> out(*device, std::vector<uint32_t>(sums.size(), 0));
  const std::string params = ".param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3";
  const Status status = run(*device, kernel_text(params, text, "", "sm_90a"),
                            {1, threads, kSharedBytes + kUndefinedBytes},
                            {image.address(), a.address(), before.address(), out.address()});
  return {status, out.values()};
}

VirtualOptions options_for(SimdLevel level, bool strict, AsyncTiming timing, uint64_t seed) {
  VirtualOptions options;
  options.simd = level;
  options.num_threads = 1;
  options.target.major = 9;
  options.target.suffix = "a";
  options.target.shared_bytes_per_block = 227 << 10;
  options.max_block_instructions = 1'000'000;
  options.strict = strict;
  options.async_timing = timing;
  options.schedule_seed = seed;
  return options;
}

// Right and without a report, whatever the timing and the order of warps.
void check_text(const Product& p, const std::string& text) {
  const Operands operands(p, 7);
  const std::vector<uint32_t> want = operands.after();
  for (const AsyncTiming timing : kTimings) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      const Outcome have =
          run_text(options_for(levels().back(), true, timing, seed), operands, text);
      ASSERT_TRUE(have.status.ok()) << have.status.to_string();
      ASSERT_EQ(have.out, want) << "timing " << static_cast<int>(timing) << ", seed " << seed;
    }
  }
}

// All of `expect` appear in the report of every timing and seed.
void expect_report(const Product& p, const std::string& text,
                   const std::vector<std::string>& expect) {
  const Operands operands(p, 7);
  for (const AsyncTiming timing : kTimings) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      const Outcome have =
          run_text(options_for(levels().back(), true, timing, seed), operands, text);
      ASSERT_FALSE(have.status.ok()) << "timing " << static_cast<int>(timing) << ", seed " << seed;
      for (const std::string& part : expect) {
        EXPECT_NE(have.status.to_string().find(part), std::string::npos)
            << "no '" << part << "' in: " << have.status.to_string();
      }
    }
  }
}

// The text with one `from`, which must be there, replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

}  // namespace lssar::test::wgmma
