// lssar report as a user calls it: what it writes, and what it refuses.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kSmall = {"report", "--head-dim", "64",      "--seq",
                                         "512",    "--device",   "virtual", "--target",
                                         "sm_80",  "--table",    "none",    "--no-compile",
                                         "--causal"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

size_t files_beside(const std::string& path) {
  const auto folder =
      std::filesystem::directory_iterator(std::filesystem::path(path).parent_path());
  return size_t(std::distance(begin(folder), end(folder)));
}

TEST(ReportCommand, WritesOnePageAndSaysSo) {
  const CommandRunner command;
  const std::string page = command.path("page.html");
  const CommandResult result = command.run(with(kSmall, {"-o", page}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(page));
  const std::string html = read_text(page);
  EXPECT_THAT(html, HasSubstr("forward bf16 d 64 on sm_80"));
  EXPECT_THAT(html, HasSubstr("--no-compile: without it, this is here."));
  EXPECT_TRUE(html.ends_with("</html>\n"));
}

// The new page takes the old one's place whole, or not at all.
TEST(ReportCommand, AFailureLeavesTheOldPage) {
  const CommandRunner command;
  ASSERT_TRUE(std::filesystem::create_directory(command.path("pages")));
  const std::string page = command.write("pages/page.html", "old");
  const size_t files = files_beside(page);
  const CommandResult bad = command.run(with(kSmall, {"-o", page, "--schedule", R"({"p": 1})"}));
  EXPECT_NE(bad.exit_code, 0);
  EXPECT_EQ(read_text(page), "old");
  const CommandResult nowhere =
      command.run(with(kSmall, {"-o", command.path("no/such/page.html")}));
  EXPECT_EQ(nowhere.exit_code, 5) << nowhere.err;
  EXPECT_THAT(nowhere.err, HasSubstr("no/such/page.html"));
  EXPECT_EQ(files_beside(page), files);
}

TEST(ReportCommand, ATableThatIsNamedMustBeThere) {
  const CommandRunner command;
  const std::string missing = command.path("none.jsonl");
  const CommandResult result =
      command.run({"report", "--table", missing, "-o", command.path("page.html")});
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr(missing));
  EXPECT_FALSE(std::filesystem::exists(command.path("page.html")));
}

TEST(ReportCommand, ShowsAtLeastTheChosenCandidate) {
  const CommandRunner command;
  const CommandResult result =
      command.run(with(kSmall, {"-o", command.path("page.html"), "--shown", "0"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--shown = 0: allowed are 1 and more"));
}

TEST(ReportCommand, ATableWithoutRecordsIsAnError) {
  const CommandRunner command;
  const std::string empty = command.write("t.jsonl", "");
  const CommandResult result =
      command.run({"report", "--table", empty, "-o", command.path("page.html")});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no records"));
}

TEST(ReportCommand, AComparisonIsWhatTheScriptWrites) {
  const CommandRunner command;
  const std::string page = command.path("page.html");
  const std::string other = command.write("other.json", R"({"cases": []})");
  const CommandResult result = command.run(with(kSmall, {"-o", page, "--compare", other}));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--compare " + other));
  EXPECT_THAT(result.err, HasSubstr("tools/compare_torch.py"));
  const std::string cpu =
      command.write("cpu.json", R"({"records": [], "machine": {"cpu": {}, "gpu": null}})");
  const CommandResult of_cpu = command.run(with(kSmall, {"-o", page, "--compare", cpu}));
  EXPECT_EQ(of_cpu.exit_code, 2) << of_cpu.err;
  EXPECT_THAT(of_cpu.err, HasSubstr("was measured on a CPU"));
  // Records of another shape are no error, and said to be none of this problem.
  const std::string odd = command.write("odd.json", R"({"records": [1, {"status": []}, {}]})");
  ASSERT_EQ(command.run(with(kSmall, {"-o", page, "--compare", odd})).exit_code, 0);
  EXPECT_THAT(read_text(page), HasSubstr("odd.json has no time of forward, d = 64, causal"));
}

const char kFigures[] = R"({"format": 1, "models": [{"name": "a model", "attention": "lssar",
    "model": "tiny", "layers": 1, "heads": 1, "trained": 8, "rope": "none", "documents": 1,
    "queries": 1, "maps": [], "points": [{"length": 8, "keys": 8, "uniform": 2.08,
    "entropy": [[1]], "first": [[0.25]], "live": [[0.5]]}]}]})";

TEST(ReportCommand, DrawsFiguresOfTrainedModels) {
  const CommandRunner command;
  const std::string page = command.path("page.html");
  const std::string figures = command.write("figures.json", kFigures);
  const CommandResult result = command.run({"report", "--attention", figures, "-o", page});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("KiB, 1 model; open it"));
  EXPECT_THAT(read_text(page), HasSubstr("\"name\":\"a model\""));
  EXPECT_THAT(read_text(page), HasSubstr("lssar report --attention figures.json"));
}

TEST(ReportCommand, RefusesFiguresThatItCannotDraw) {
  const CommandRunner command;
  const std::string page = command.path("page.html");
  const std::string other = command.write("other.json", R"({"records": []})");
  const CommandResult wrong = command.run({"report", "--attention", other, "-o", page});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("--attention " + other + ": figures.format is missing"));
  const std::string none = command.path("none.json");
  const CommandResult missing = command.run({"report", "--attention", none, "-o", page});
  EXPECT_EQ(missing.exit_code, 5) << missing.err;
  const std::string figures = command.write("figures.json", kFigures);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--head-dim", "64"}, {"--shown", "3"}, {"--table", "none"}}) {
    const CommandResult both =
        command.run(with({"report", "--attention", figures, "-o", page}, more));
    EXPECT_EQ(both.exit_code, 2) << both.err;
    EXPECT_THAT(both.err, HasSubstr("--attention with " + more[0]));
  }
  EXPECT_FALSE(std::filesystem::exists(page));
}

}  // namespace
}  // namespace lssar
