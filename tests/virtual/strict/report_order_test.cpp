// What comes out of a launch with many reports: the same whatever threads run its blocks, and the
// kernel runs on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

constexpr uint32_t kBlocks = 48;
constexpr uint32_t kRaces = 40;
constexpr uint32_t kMostReports = 32;
constexpr uint32_t kShared = 2;  // words after those of the blocks

struct Outcome {
  std::string reports;
  std::vector<uint32_t> out;  // a word of each block
};

// Blocks of two warps; %b: the block, %s: shared memory, %o: the block's word, %q: the first word.
Outcome run_blocks(const std::string& body, int threads) {
  VirtualOptions options;
  options.target = *target_from_name("sm_90");
  options.strict = true;
  options.num_threads = threads;
  const auto device = make_virtual_device(options);
  Buffer<uint32_t> out(*device, std::vector<uint32_t>(kBlocks + kShared, 0));
  const Status status =
      run(*device,
          kernel_text(".param .u64 o",
                      ".reg .b64 %o, %a, %q; .reg .b32 %b, %s, %t; .reg .pred %p;\n"
                      ".shared .align 16 .b8 data[256];\n"
                      "ld.param.u64 %o, [o]; mov.u64 %q, %o; mov.u32 %b, %ctaid.x;\n"
                      "mov.u32 %s, data; mov.u32 %t, %tid.x;\n"
                      "mul.wide.u32 %a, %b, 4; add.s64 %o, %o, %a;\n" +
                          body + "setp.eq.u32 %p, %t, 0; @%p st.global.u32 [%o], 1; ret;"),
          {kBlocks, 64}, {out.address()});
  std::vector<uint32_t> words = out.values();
  words.resize(kBlocks);
  return {status.ok() ? "" : std::string(status.message()), std::move(words)};
}

// Both warps store to one word: instruction i is a race with itself, in the blocks of the guard.
std::string race(uint32_t i, const std::string& guard = "") {
  return fmt::format("{} st.shared.u32 [%s+{}], %t;\n", guard, 4 * i);
}

// The same with 1, 4 and 8 threads, several times.
Outcome check_same(const std::string& body) {
  const Outcome one = run_blocks(body, 1);
  for (const int threads : {4, 8, 4, 8}) {
    const Outcome many = run_blocks(body, threads);
    EXPECT_EQ(many.reports, one.reports) << threads << " threads";
  }
  return one;
}

size_t lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + (text.empty() ? 0 : 1);
}

TEST(ReportOrderTest, ABlockWithManyReportsRunsOnAndSoDoTheOthers) {
  std::string body;
  for (uint32_t i = 0; i < kRaces; ++i) body += race(i);
  const Outcome outcome = check_same(body);
  EXPECT_EQ(lines(outcome.reports), kMostReports) << outcome.reports;
  EXPECT_EQ(outcome.reports.find("block (1,"), std::string::npos) << outcome.reports;
  EXPECT_EQ(outcome.out, std::vector<uint32_t>(kBlocks, 1));
}

TEST(ReportOrderTest, ReportsOfManyBlocksComeInTheirOrder) {
  std::string body;
  for (uint32_t i = kRaces; i-- > 0;) {
    body += fmt::format("setp.eq.u32 %p, %b, {};\n", i + 3) + race(i, "@%p");
  }
  const Outcome outcome = check_same(body);
  EXPECT_EQ(lines(outcome.reports), kMostReports) << outcome.reports;
  for (uint32_t i = 0; i < kMostReports; ++i) {
    EXPECT_NE(outcome.reports.find(fmt::format("block ({}, 0, 0)", i + 3)), std::string::npos) << i;
  }
  EXPECT_EQ(outcome.out, std::vector<uint32_t>(kBlocks, 1));
}

TEST(ReportOrderTest, AFaultComesAfterTheReportsOfTheBlocksBeforeIt) {
  std::string body;
  for (const uint32_t block : {47, 20, 5}) {
    body += fmt::format("setp.eq.u32 %p, %b, {};\n", block) + race(block % 8, "@%p");
  }
  body += "setp.ge.u32 %p, %b, 31; @%p st.shared.u32 [%s+1048576], %t;\n";
  const Outcome outcome = check_same(body);
  EXPECT_EQ(lines(outcome.reports), 3u) << outcome.reports;
  const size_t first = outcome.reports.find("block (5, 0, 0)");
  const size_t second = outcome.reports.find("block (20, 0, 0)");
  const size_t fault = outcome.reports.find("block (31, 0, 0)");
  EXPECT_LT(first, second);
  EXPECT_LT(second, fault);
  EXPECT_NE(fault, std::string::npos) << outcome.reports;
}

// Threads decide in which blocks a race between blocks is found, so the report names no block. Here
// the first pair of instructions races in the last blocks only.
TEST(ReportOrderTest, RacesBetweenBlocksComeLastInTheOrderOfTheirInstructions) {
  const std::string store = fmt::format("st.global.u32 [%q+{}]", 4 * kBlocks);
  const std::string other = fmt::format("st.global.u32 [%q+{}]", 4 * kBlocks + 4);
  const std::string body = fmt::format(
      "setp.ge.u32 %p, %b, 40; setp.eq.and.u32 %p, %t, 0, %p; @%p {}, %b;\n"
      "setp.eq.u32 %p, %t, 0; @%p {}, %b;\n"
      "setp.eq.u32 %p, %b, 47; {}",
      store, other, race(0, "@%p"));
  const std::string one = run_blocks(body, 1).reports;
  EXPECT_LT(one.find(other), one.find(store)) << one;
  EXPECT_NE(one.find("cluster 0 of the grid"), std::string::npos) << one;
  const std::string first = run_blocks(body, 4).reports;
  EXPECT_EQ(lines(first), 3u) << first;
  EXPECT_LT(first.find("block (47,"), first.find("in different clusters of the grid")) << first;
  EXPECT_LT(first.find(store), first.find(other)) << first;
  for (const int threads : {2, 4, 8, 8}) EXPECT_EQ(run_blocks(body, threads).reports, first);
}

}  // namespace
}  // namespace lssar::test
