// wgmma through PTX kernels: results for all places of operands, types and moments of effect, and
// what the strict mode reports. Elements are small integers, so that every sum is exact.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kDepthBytes = 32;  // of K, per wgmma
constexpr uint32_t kPlaceOfA = 1024;
constexpr uint32_t kPlaceOfB = 32 << 10;
constexpr uint32_t kSharedBytes = 72 << 10;  // that are filled
constexpr uint32_t kUndefinedBytes = 1024;   // behind them

enum class Element { kF16, kBf16, kTf32, kE4m3 };
uint32_t bytes_of(Element e) { return e == Element::kTf32 ? 4 : e == Element::kE4m3 ? 1 : 2; }
const char* name_of(Element e) {
  return e == Element::kF16    ? "f16"
         : e == Element::kBf16 ? "bf16"
         : e == Element::kTf32 ? "tf32"
                               : "e4m3";
}

uint32_t encode(Element e, int value) {
  switch (e) {
    case Element::kF16:
      return half_bits(value);
    case Element::kBf16:
      return bfloat_bits(value);
    case Element::kTf32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case Element::kE4m3:
      break;
  }
  const auto magnitude = static_cast<uint32_t>(std::abs(value));
  if (magnitude == 0) return 0;
  const auto exponent = static_cast<uint32_t>(std::bit_width(magnitude)) - 1;
  return (value < 0 ? 0x80u : 0u) | (exponent + 7) << 3 | ((magnitude << 3 >> exponent) & 7);
}

enum class Layout { kRegisters, kKMajor, kKMajorPlain, kMnMajor };

// D = A B (+ D) in `steps` wgmmas, each 32 bytes of K.
struct Product {
  Element type = Element::kBf16;
  uint32_t n = 64;
  Layout a = Layout::kKMajor;
  Layout b = Layout::kKMajor;
  uint32_t steps = 4;
  bool accumulate = false;  // the first one too
  bool half_sums = false;

  uint32_t depth() const { return kDepthBytes / bytes_of(type); }
  uint32_t num_sums() const { return n / (half_sums ? 4 : 2); }
};

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

// Operands as integers, and as the kernel gets them.
class Operands {
 public:
  Operands(const Product& p, int seed) : p_(p), image_(kSharedBytes / 4, 0) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto fill = [&](std::vector<int>& m, uint32_t count) {
      m.resize(count);
      for (int& v : m) v = static_cast<int>(random() % 7) - 3;
    };
    const uint32_t depth = p.depth() * p.steps;
    fill(a_, 64 * depth);
    fill(b_, p.n * depth);
    fill(d_, 64 * p.n);
    if (p.a != Layout::kRegisters) put(a_, p.a, 64, kPlaceOfA);
    put(b_, p.b, p.n, kPlaceOfB);
    fill_registers();
  }

  const std::vector<uint32_t>& image() const { return image_; }
  const std::vector<uint32_t>& registers() const { return registers_; }  // of A
  // What register i of a thread holds before, and after.
  uint32_t before(uint32_t i, uint32_t thread) const { return sum_bits(d_, i, thread); }
  std::vector<uint32_t> after() const {
    std::vector<int> sums = d_;
    const uint32_t depth = p_.depth() * p_.steps;
    for (uint32_t row = 0; row < 64; ++row) {
      for (uint32_t column = 0; column < p_.n; ++column) {
        int& sum = sums[row * p_.n + column];
        if (!p_.accumulate) sum = 0;
        for (uint32_t k = 0; k < depth; ++k) sum += a_[row * depth + k] * b_[column * depth + k];
      }
    }
    std::vector<uint32_t> bits;
    for (uint32_t i = 0; i < p_.num_sums(); ++i) {
      for (uint32_t t = 0; t < kThreads; ++t) bits.push_back(sum_bits(sums, i, t));
    }
    return bits;
  }

 private:
  void put(const std::vector<int>& m, Layout layout, uint32_t rows, uint32_t start) {
    const uint32_t bytes = bytes_of(p_.type);
    const uint32_t depth = p_.depth() * p_.steps;
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t k = 0; k < depth; ++k) {
        const uint32_t bits = encode(p_.type, m[row * depth + k]);
        std::memcpy(reinterpret_cast<uint8_t*>(image_.data()) +
                        address_of(layout, rows, start, row, k * bytes),
                    &bits, bytes);
      }
    }
  }
  void fill_registers() {
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
  uint32_t sum_bits(const std::vector<int>& sums, uint32_t i, uint32_t t) const {
    const uint32_t half = p_.half_sums ? i & 1 : i >> 1 & 1;
    const uint32_t row = 16 * (t / 32) + t % 32 / 4 + 8 * half;
    const int* const at = &sums[row * p_.n + 8 * (i / (p_.half_sums ? 2 : 4)) + t % 4 * 2];
    if (!p_.half_sums) return std::bit_cast<uint32_t>(static_cast<float>(at[i & 1]));
    return half_bits(at[0]) | static_cast<uint32_t>(half_bits(at[1])) << 16;
  }

  Product p_;
  std::vector<int> a_, b_, d_;  // b_ by columns
  std::vector<uint32_t> image_, registers_;
};

std::string list(const char* prefix, uint32_t first, uint32_t count) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) {
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", prefix, first + i);
  }
  return text + "}";
}

// The wgmma of one step; its descriptors are literals in registers %da, %db.
std::string wgmma(const Product& p, uint32_t step, const char* sums = "%d") {
  const bool transposes = bytes_of(p.type) == 2;
  std::string text;
  if (p.a != Layout::kRegisters) {
    text += fmt::format("mov.b64 %da, {};\n", descriptor(p.a, 64, kPlaceOfA, step));
  }
  text += fmt::format("mov.b64 %db, {};\n", descriptor(p.b, p.n, kPlaceOfB, step));
  text += fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} {}, ", p.n, p.depth(),
                      p.half_sums ? "f16" : "f32", name_of(p.type), name_of(p.type),
                      list(sums, 0, p.num_sums()));
  text += p.a == Layout::kRegisters ? list("%a", 4 * step, 4) : "%da";
  text += fmt::format(", %db, {}, 1, 1", step == 0 && !p.accumulate ? "%never" : "%always");
  if (transposes && p.a != Layout::kRegisters) text += p.a == Layout::kMnMajor ? ", 1" : ", 0";
  if (transposes) text += p.b == Layout::kMnMajor ? ", 1" : ", 0";
  return text + ";\n";
}

const char* const kFence = "wgmma.fence.sync.aligned;\n";
const char* const kCommit = "wgmma.commit_group.sync.aligned;\n";
const char* const kWait = "wgmma.wait_group.sync.aligned 0;\n";
const char* const kProxyFence = "fence.proxy.async.shared::cta;\n";
const char* const kBarrier = "bar.sync 0;\n";

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
std::string steps(const Product& p) {
  std::string text;
  for (uint32_t i = 0; i < p.steps; ++i) text += wgmma(p, i);
  return text;
}
std::string epilogue(const Product& p, const char* sums = "%d") {
  std::string text = "ld.param.u64 %out, [p3]; add.u64 %out, %out, %wide;\n";
  for (uint32_t i = 0; i < p.num_sums(); ++i) {
    text += fmt::format("st.global.u32 [%out + {}], {}{};\n", i * kThreads * 4, sums, i);
  }
  return text + "ret;\n";
}
std::string product_text(const Product& p) {
  return prologue(p) + kFence + steps(p) + kCommit + kWait + epilogue(p);
}

struct Outcome {
  Status status;
  std::vector<uint32_t> out;
};

Outcome run_text(const VirtualOptions& options, const Product& p, const Operands& operands,
                 const std::string& text, uint32_t threads = kThreads) {
  const auto device = make_virtual_device(options);
  std::vector<uint32_t> sums;
  for (uint32_t i = 0; i < p.num_sums(); ++i) {
    for (uint32_t t = 0; t < kThreads; ++t) sums.push_back(operands.before(i, t));
  }
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
  options.max_block_instructions = 10'000'000;
  options.strict = strict;
  options.async_timing = timing;
  options.schedule_seed = seed;
  return options;
}

constexpr AsyncTiming kTimings[] = {AsyncTiming::kLatest, AsyncTiming::kEarliest,
                                    AsyncTiming::kRandom};

// Right and without a report, whatever the timing and the order of warps.
void check_text(const Product& p, const std::string& text) {
  const Operands operands(p, 7);
  const std::vector<uint32_t> want = operands.after();
  for (const AsyncTiming timing : kTimings) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      const Outcome have =
          run_text(options_for(levels().back(), true, timing, seed), p, operands, text);
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
          run_text(options_for(levels().back(), true, timing, seed), p, operands, text);
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

class WgmmaProduct : public testing::TestWithParam<Product> {};

TEST_P(WgmmaProduct, IsRight) {
  const Product& p = GetParam();
  const Operands operands(p, 3);
  for (const SimdLevel level : levels()) {
    for (const bool strict : {false, true}) {
      const Outcome have = run_text(options_for(level, strict, AsyncTiming::kLatest, 0), p,
                                    operands, product_text(p));
      ASSERT_TRUE(have.status.ok()) << have.status.to_string();
      ASSERT_EQ(have.out, operands.after()) << simd_level_name(level) << " strict " << strict;
    }
  }
}

const Product kProducts[] = {
    {},
    {.accumulate = true},
    {.n = 8},
    {.n = 256, .steps = 2},
    {.a = Layout::kRegisters},
    {.a = Layout::kKMajorPlain, .b = Layout::kKMajorPlain},
    {.a = Layout::kMnMajor, .steps = 2},
    {.b = Layout::kMnMajor, .steps = 2},
    {.n = 128, .a = Layout::kRegisters, .b = Layout::kMnMajor, .accumulate = true},
    {.type = Element::kF16},
    {.type = Element::kF16, .n = 96, .accumulate = true, .half_sums = true},
    {.type = Element::kTf32},
    {.type = Element::kTf32, .a = Layout::kRegisters},
    {.type = Element::kE4m3, .n = 128},
    {.type = Element::kE4m3, .a = Layout::kRegisters, .accumulate = true},
    {.type = Element::kE4m3, .n = 32, .half_sums = true},
};

std::string product_name(const testing::TestParamInfo<Product>& info) {
  const Product& p = info.param;
  const char* const layouts[] = {"Registers", "KMajor", "Plain", "MnMajor"};
  return fmt::format("{}_n{}_A{}_B{}{}{}", name_of(p.type), p.n, layouts[static_cast<int>(p.a)],
                     layouts[static_cast<int>(p.b)], p.accumulate ? "_Accumulate" : "",
                     p.half_sums ? "_HalfSums" : "");
}
INSTANTIATE_TEST_SUITE_P(All, WgmmaProduct, testing::ValuesIn(kProducts), product_name);

TEST(WgmmaTest, EveryTimingAndOrderOfWarps) {
  for (const Product& p : {Product{}, Product{.a = Layout::kRegisters, .accumulate = true}}) {
    check_text(p, product_text(p));
  }
}

// Two groups in flight with accumulators of their own: the wait for the first leaves the second.
std::string two_groups(const Product& p, const char* first_wait) {
  std::string text = prologue(p);
  text += kFence + steps(p) + kCommit;
  for (uint32_t i = 0; i < p.steps; ++i) text += wgmma(p, i, "%e");
  text += kCommit;
  text += first_wait;
  for (uint32_t i = 0; i < p.num_sums(); ++i) text += fmt::format("mov.b32 %a{0}, %d{0};\n", i);
  text += kWait;
  for (uint32_t i = 0; i < p.num_sums(); ++i) {
    text += fmt::format("max.f32 %d{0}, %a{0}, %e{0};\n", i);
  }
  return text + epilogue(p);
}
TEST(WgmmaTest, WaitsForTheFirstOfTwoGroups) {
  const Product p = {.n = 64, .steps = 2};
  check_text(p, two_groups(p, "wgmma.wait_group.sync.aligned 1;\n"));
}
TEST(WgmmaTest, AWaitThatLeavesTheGroupInFlightIsReported) {
  const Product p = {.n = 64, .steps = 2};
  expect_report(p, two_groups(p, "wgmma.wait_group.sync.aligned 2;\n"),
                {"operation in flight", "mov.b32 %a0, %d0", "wgmma.mma_async"});
}

// The second group adds to the first one's sums, which are in flight.
TEST(WgmmaTest, GroupsThatAddToTheSameSums) {
  Product p = {.steps = 4};
  std::string text = prologue(p);
  text += kFence;
  for (uint32_t i = 0; i < p.steps; ++i) {
    text += wgmma(p, i) + kCommit + "wgmma.wait_group.sync.aligned 1;\n";
  }
  check_text(p, text + kWait + epilogue(p));
}

TEST(WgmmaTest, TwoWarpGroupsAreApart) {
  const Product p;
  const Operands operands(p, 5);
  // The second one computes the same, and does not store it.
  std::string text = product_text(p);
  text = replaced(text, "mov.u32 %t, %tid.x;",
                  "mov.u32 %t, %tid.x; mov.u32 %x, %tid.x; "
                  "and.b32 %t, %t, 127;");
  text = replaced(text, "FILL:", "setp.ge.u32 %more, %x, 128; @%more bra FILLED;\nFILL:");
  text = replaced(text, "@%more bra FILL;\n", "@%more bra FILL;\nFILLED:\n");
  text = replaced(text, "ld.param.u64 %out",
                  "setp.ge.u32 %more, %x, 128; @%more ret;\nld.param.u64 %out");
  for (const AsyncTiming timing : kTimings) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      const Outcome have =
          run_text(options_for(levels().back(), true, timing, seed), p, operands, text, 256);
      ASSERT_TRUE(have.status.ok()) << have.status.to_string();
      ASSERT_EQ(have.out, operands.after());
    }
  }
}

// Without the strict mode a missing wait shows in the numbers, whatever the timing.
TEST(WgmmaTest, SumsAreNaNBeforeTheWait) {
  const Product p;
  const Operands operands(p, 5);
  for (const AsyncTiming timing : kTimings) {
    const Outcome have = run_text(options_for(levels().back(), false, timing, 1), p, operands,
                                  replaced(product_text(p), kWait, ""));
    ASSERT_TRUE(have.status.ok()) << have.status.to_string();
    for (const uint32_t bits : have.out) ASSERT_TRUE(std::isnan(std::bit_cast<float>(bits)));
  }
}

TEST(WgmmaTest, MissingWaitIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kWait, ""),
                {"operation in flight", "st.global.u32", "reads a register of", "wgmma.mma_async",
                 "the warp ends without having waited"});
}
TEST(WgmmaTest, MissingCommitIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kCommit, ""),
                {"operation in flight", "st.global.u32", "wgmma.mma_async"});
}
TEST(WgmmaTest, MissingFenceIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kFence, ""), {"no wgmma.fence", "wgmma.mma_async"});
}
TEST(WgmmaTest, AccumulatorWrittenAfterTheFenceIsReported) {
  const Product p = {.accumulate = true};
  expect_report(p, replaced(product_text(p), kFence, std::string(kFence) + "mov.b32 %d3, 0;\n"),
                {"mov.b32 %d3, 0", "without a wgmma.fence", "an accumulator"});
}
TEST(WgmmaTest, RegisterOfAWrittenAfterTheFenceIsReported) {
  const Product p = {.a = Layout::kRegisters};
  expect_report(p,
                replaced(product_text(p), kFence, std::string(kFence) + "add.u32 %a5, %a5, 0;\n"),
                {"add.u32 %a5, %a5, 0", "without a wgmma.fence", "a register of A"});
}
TEST(WgmmaTest, AccumulatorWrittenInFlightIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kCommit, std::string(kCommit) + "mov.b32 %d3, 0;\n"),
                {"operation in flight", "mov.b32 %d3, 0", "writes a register of"});
}
TEST(WgmmaTest, RegisterOfAWrittenInFlightIsReported) {
  const Product p = {.a = Layout::kRegisters};
  expect_report(p, replaced(product_text(p), kCommit, std::string(kCommit) + "mov.b32 %a3, 0;\n"),
                {"operation in flight", "mov.b32 %a3, 0", "writes a register of"});
}
TEST(WgmmaTest, RegisterOfAReadInFlightIsReported) {
  const Product p = {.a = Layout::kRegisters};
  expect_report(p, replaced(product_text(p), kCommit, std::string(kCommit) + "mov.b32 %x, %a3;\n"),
                {"operation in flight", "mov.b32 %x, %a3", "reads a register of"});
}
TEST(WgmmaTest, OtherRegistersMayBeUsedInFlight) {
  const Product p = {.a = Layout::kRegisters};
  check_text(p, replaced(product_text(p), kCommit,
                         std::string(kCommit) + "mov.b32 %x, %t; add.u32 %x, %x, 1;\n"));
}
TEST(WgmmaTest, MissingProxyFenceIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kProxyFence, ""),
                {"missing fence.proxy.async", "st.shared.u32", "wgmma.mma_async"});
}
TEST(WgmmaTest, ProxyFenceAfterTheBarrierIsEnough) {
  const Product p;
  check_text(p, replaced(product_text(p), std::string(kProxyFence) + kBarrier,
                         std::string(kBarrier) + kProxyFence));
}
TEST(WgmmaTest, MissingBarrierIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kBarrier, ""),
                {"race", "st.shared.u32", "wgmma.mma_async"});
}
TEST(WgmmaTest, OperandsOverwrittenInFlightAreReported) {
  const Product p;
  const std::string store = fmt::format("st.shared.u32 [{}], %t;\n", kPlaceOfB);
  expect_report(p, replaced(product_text(p), kCommit, kCommit + store),
                {"race", "st.shared.u32", "wgmma.mma_async"});
}
// Any warp's wait orders what the whole operation read.
TEST(WgmmaTest, OperandsMayBeOverwrittenAfterAWait) {
  const Product p;
  const std::string store =
      fmt::format("setp.eq.u32 %more, %t, 127; @%more st.shared.u32 [{}], %t;\n", kPlaceOfB);
  check_text(p, replaced(product_text(p), kWait, kWait + store));
}
TEST(WgmmaTest, UndefinedSharedMemoryIsReported) {
  const Product p;
  const std::string text =
      replaced(product_text(p), fmt::format("%s, {};", kSharedBytes), "%s, 36864;");
  expect_report(p, text, {"undefined value", "wgmma.mma_async", "nobody wrote"});
}
TEST(WgmmaTest, UndefinedRegisterOfAIsReportedWhereItMatters) {
  const Product p = {.a = Layout::kRegisters};
  const std::string load =
      fmt::format("ld.shared.u32 %a2, [{}];\nld.param.u64 %g, [p2]", kSharedBytes);
  expect_report(p, replaced(product_text(p), "ld.param.u64 %g, [p2]", load),
                {"undefined value", "st.global.u32", "ld.shared.u32 %a2"});
}

TEST(WgmmaTest, DescriptorsThatDifferFault) {
  const Product p;
  expect_report(
      p, replaced(product_text(p), "wgmma.mma_async", "add.u64 %da, %da, %wide;\nwgmma.mma_async"),
      {"the descriptor of A is", "in lane 1"});
  expect_report(p,
                replaced(product_text(p), "wgmma.mma_async",
                         "shr.u32 %x, %t, 5; cvt.u64.u32 %at, %x; add.u64 %db, %db, %at;\n"
                         "wgmma.mma_async"),
                {"the descriptor of B is", "for the warps of its group that came first"});
}
TEST(WgmmaTest, ScaleThatDiffersFaults) {
  const Product p;
  const std::string text = replaced(product_text(p), "%never, 1, 1", "%more, 1, 1");
  expect_report(p, replaced(text, kFence, std::string("setp.lt.u32 %more, %t, 5;\n") + kFence),
                {"scale-d holds in lanes 0x0000001f only"});
  expect_report(p, replaced(text, kFence, std::string("setp.lt.u32 %more, %t, 32;\n") + kFence),
                {"scale-d is"});
}
TEST(WgmmaTest, OperandOutOfBoundsFaults) {
  const Product p;
  expect_report(
      p, replaced(product_text(p), "wgmma.mma_async", "add.u64 %db, %db, 4032;\nwgmma.mma_async"),
      {"B has 16 bytes at shared address", "out of bounds"});
}
TEST(WgmmaTest, PartOfAWarpGroupFaults) {
  const Product p;
  const Operands operands(p, 5);
  const Outcome have = run_text(options_for(levels().back(), false, AsyncTiming::kLatest, 0), p,
                                operands, product_text(p), 96);
  EXPECT_NE(have.status.to_string().find("whole warp group"), std::string::npos)
      << have.status.to_string();
}
TEST(WgmmaTest, PartOfAWarpFaults) {
  const Product p;
  const std::string some = "setp.lt.u32 %more, %t, 100;\n@%more wgmma.mma_async";
  expect_report(p, replaced(product_text(p), "wgmma.mma_async", some), {"all 32 lanes"});
}
TEST(WgmmaTest, WarpThatDoesNotComeIsADeadlock) {
  const Product p;
  const std::string some = "setp.ge.u32 %more, %t, 96;\n@%more bra SKIP;\n";
  std::string text = replaced(product_text(p), kFence, some + kFence);
  text = replaced(text, kCommit, std::string("SKIP:\n") + kCommit);
  expect_report(p, text, {"deadlock", "wgmma.wait_group", "the other warps of its group"});
}

}  // namespace
}  // namespace lssar::test
