// LSSAR_DEBUG_WAITS: if a kernel waits for what never comes, it says which thread waits, where and
// for what. A kernel without a fault runs as usual. Without the variable a kernel has no code for
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "codegen/emit.h"
#include "compile/compiler.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

using Arguments = std::vector<std::string>;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const Arguments kClusterForward = {
    "--head-dim",
    "64",
    "--target",
    "sm_90a",
    "--seq",
    "300",
    "--schedule",
    R"({"forward": {"block_rows": 128, "block_cols": 64, "stages": 2}, "hopper": {"cluster": 2}})"};
const Arguments kOrderedBackward = {
    "--pass", "backward", "--head-dim", "16",         "--target",
    "sm_80",  "--seq",    "150",        "--schedule", R"({"dq_mode": "ordered"})"};

class WaitLimit : public testing::Test {
 protected:
  // Verifies the kernel with `from`, which must be in its source, replaced by `to`.
  CommandResult verify_edited(const Arguments& kernel, const std::string& from,
                              const std::string& to, const std::string& spins) {
    std::filesystem::create_directory(folder_);
    Arguments emit = {"emit", "--override", folder_};
    emit.insert(emit.end(), kernel.begin(), kernel.end());
    const CommandResult emitted = command_.run(emit);
    EXPECT_EQ(emitted.exit_code, 0) << emitted.err;
    const std::string path = emitted.out.substr(0, emitted.out.find('\n'));
    std::string text = read_text(path);
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    if (at == text.npos) return {};
    std::ofstream(path, std::ios::binary) << text.replace(at, from.size(), to);
    return verify(kernel, {"LSSAR_OVERRIDE_DIR=" + folder_, "LSSAR_DEBUG_WAITS=" + spins});
  }
  CommandResult verify(const Arguments& kernel, const Arguments& environment) const {
    Arguments arguments = {"verify", "--device", "virtual"};
    arguments.insert(arguments.end(), kernel.begin(), kernel.end());
    return command_.run(arguments, environment);
  }

  CommandRunner command_;
  std::string folder_ = command_.path("edited");
};

TEST_F(WaitLimit, AnMbarrierThatNobodyReleases) {
  const CommandResult result = verify_edited(
      kClusterForward, "release_share<Shape::kCluster>(empty, lane_index());", "", "500");
  EXPECT_EQ(result.exit_code, 4) << result.out;
  EXPECT_THAT(result.err, HasSubstr("'trap;': trap"));
  EXPECT_THAT(result.err, Not(HasSubstr("deadlock")));
  EXPECT_THAT(
      result.err,
      ContainsRegex("block 0, thread 0: line [0-9]+ 'mbarrier_wait\\(shared.ring\\(\\).empty\\("
                    "stage\\), cursor.parity \\^ 1\\);': waits for the mbarrier at 0x[0-9a-f]+ of "
                    "shared memory, parity [01]"));
  EXPECT_THAT(result.err, ContainsRegex("block 0, thread [0-9]+: line [0-9]+ 'mbarrier_wait\\("
                                        "shared.ring\\(\\).full\\(filled.stage\\)"));
}

TEST_F(WaitLimit, TheLineIsThatOfTheSource) {
  const CommandResult result = verify_edited(
      kClusterForward, "release_share<Shape::kCluster>(empty, lane_index());", "", "500");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(result.err, match, std::regex("line ([0-9]+) 'mbarrier_wait")))
      << result.err;
  std::istringstream lines(read_text(std::filesystem::directory_iterator(folder_)->path()));
  std::string line;
  for (int i = 0; i < std::stoi(match[1]); ++i) std::getline(lines, line);
  EXPECT_THAT(line, HasSubstr("mbarrier_wait(")) << match[1];
}

TEST_F(WaitLimit, ATurnThatNobodyEnds) {
  const CommandResult result = verify_edited(
      kOrderedBackward, "if (lane_index() == 0) add_release(counter, 1);", "", "20000");
  EXPECT_EQ(result.exit_code, 4) << result.out;
  EXPECT_THAT(result.err,
              ContainsRegex("block 1, thread 0: line [0-9]+ 'begin_turn\\(.*': waits for the "
                            "counter of turns at 0x[0-9a-f]+ to be 1"));
}

TEST_F(WaitLimit, AClusterOfWhichOneWarpDoesNotCome) {
  const std::string arrive = "  asm volatile(\"barrier.cluster.arrive.release;\"";
  const CommandResult result = verify_edited(
      kClusterForward, arrive,
      "  if (warp_index() == 5) asm volatile(\"bar.sync 9, 64;\");\n" + arrive, "500");
  EXPECT_EQ(result.exit_code, 4) << result.out;
  EXPECT_THAT(result.err,
              ContainsRegex("block [01], thread 0: line [0-9]+ 'cluster_barrier\\(\\);': "
                            "waits for all threads of its cluster"));
}

TEST_F(WaitLimit, WithoutAFaultKernelsRunAsEver) {
  for (const Arguments& kernel : {kClusterForward, kOrderedBackward}) {
    const CommandResult result =
        verify(kernel, {"LSSAR_DEBUG_WAITS=100000000", "LSSAR_VIRTUAL_CHECKS=strict"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
}

TEST_F(WaitLimit, OtherValuesAreRefused) {
  for (const char* const value : {"1", "-5", "1e6", "yes", "99999999999999999999"}) {
    const CommandResult result =
        verify({"--head-dim", "16", "--seq", "8"}, {std::string("LSSAR_DEBUG_WAITS=") + value});
    EXPECT_EQ(result.exit_code, 2) << value;
    EXPECT_THAT(result.err, HasSubstr(std::string("LSSAR_DEBUG_WAITS '") + value +
                                      "': allowed are 2 to 281474976710656"));
  }
}

// It would be replayed without what its waits report to.
TEST_F(WaitLimit, SuchAKernelIsNotCaptured) {
  const CommandResult result =
      command_.run({"capture", "--head-dim", "16", "--seq", "8", "--device", "virtual", "-o",
                    command_.path("case.lssar")},
                   {"LSSAR_DEBUG_WAITS=1000"});
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_THAT(result.err, HasSubstr("unset it to capture"));
  EXPECT_FALSE(std::filesystem::exists(command_.path("case.lssar")));
}

std::string key_of(const CommandResult& result) {
  std::smatch match;
  return std::regex_search(result.out, match, std::regex("[0-9a-f]{64}")) ? match.str()
                                                                          : result.out;
}

TEST_F(WaitLimit, IsPartOfTheKey) {
  const Arguments prepare = {"prepare", "--head-dim", "16", "--device", "virtual"};
  const std::string without = key_of(command_.run(prepare));
  const std::string with = key_of(command_.run(prepare, {"LSSAR_DEBUG_WAITS=1000"}));
  EXPECT_EQ(without.size(), 64u);
  EXPECT_NE(without, with);
  EXPECT_NE(with, key_of(command_.run(prepare, {"LSSAR_DEBUG_WAITS=1001"})));
  EXPECT_EQ(without, key_of(command_.run(prepare, {"LSSAR_DEBUG_WAITS="})));
}

// Every use of the limit taken out of the source: what is compiled is the same, to the byte.
TEST_F(WaitLimit, CostsNothingWhereItIsOff) {
  Problem problem;
  const Target target = target_from_name("sm_90a").value();
  Schedule schedule = default_schedule(problem, target);
  schedule.hopper.cluster = 2;
  schedule.hopper.tickets = false;
  const auto kernel = emit_kernel(problem, schedule, target);
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  std::string without = kernel->source;
  int num_uses = 0;
  const auto take_out = [&](const char* pattern, const char* by) {
    const std::regex use(pattern);
    num_uses += static_cast<int>(std::distance(
        std::sregex_iterator(without.begin(), without.end(), use), std::sregex_iterator()));
    without = std::regex_replace(without, use, by);
  };
  take_out("  SpinLimit limit\\(kWait(Mbarrier|Turn).*", "");
  take_out("\\)\\)\\) limit\\.spin\\(\\);", "))) {}");
  take_out("\\)\\) limit\\.spin\\(\\);", ")) {}");
  take_out("  const ClusterWatch watch;", "");
  take_out("  watch\\.[a-z]+\\(.*\\);", "");
  ASSERT_GE(num_uses, 5);

  const auto compiler = open_compiler(CompilerChoice::kAuto);
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const auto ptx_of = [&](const std::string& source) {
    const Result<Image> image =
        (*compiler)->compile({kernel->name, source, target, ImageKind::kPtx, {}});
    EXPECT_TRUE(image.ok()) << image.status().to_string();
    return image.ok() ? std::regex_replace(image->bytes, std::regex("//.*"), "") : "";
  };
  const std::string ptx = ptx_of(kernel->source);
  EXPECT_THAT(ptx, Not(HasSubstr("trap")));
  EXPECT_THAT(ptx, Not(HasSubstr("ait_report")));
  EXPECT_TRUE(ptx == ptx_of(without));
}

}  // namespace
}  // namespace lssar
