// How the command is talked to: help, misspelled words, completion, the manual page, numbers, lines
// on a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/command/command_runner.h"
#include "tests/command/terminal_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Lines that could have been broken, and are longer.
std::vector<std::string> long_lines(const std::string& text, size_t columns) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(text)) {
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    if (line.size() > columns && line.find(' ', begin) != line.npos) found.push_back(line);
  }
  return found;
}

const Words kSubcommands = {"emit",  "prepare", "run",   "verify",    "capture", "replay",
                            "sim",   "tune",    "table", "explain",   "report",  "inspect",
                            "cache", "doctor",  "help",  "completion"};
const std::vector<Words> kCommands = [] {
  std::vector<Words> all;
  for (const std::string& name : kSubcommands) all.push_back({name});
  for (const char* name : {"ls", "stat", "verify", "prune", "export", "import"})
    all.push_back({"cache", name});
  for (const char* name : {"ls", "show", "export", "import", "merge", "prune"})
    all.push_back({"table", name});
  return all;
}();

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Help, FitsEightyColumnsAndNamesValues) {
  const CommandRunner command;
  for (const Words& words : kCommands) {
    const CommandResult result = command.run(with(words, {"--help"}));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(long_lines(result.out, 80), testing::IsEmpty());
    for (const char* noise : {"Excludes", "Needs:", " TEXT", "REQUIRED", "  \n"})
      EXPECT_THAT(result.out, Not(HasSubstr(noise))) << words.back();
    EXPECT_EQ(command.run(with({"help"}, words)).out, result.out);
  }
  EXPECT_THAT(command.run({"verify", "--help"}).out,
              HasSubstr("  --dtype bf16|fp16|fp32    of q, k, v and o (default bf16)\n"));
}

TEST(Help, TakesTheTerminalsWidth) {
  for (const int columns : {60, 100}) {
    const std::string text = run_on_terminal(columns, {"verify", "--help"});
    EXPECT_THAT(long_lines(text, columns), testing::IsEmpty());
    size_t longest = 0;
    for (const std::string& line : lines_of(text)) longest = std::max(longest, line.size());
    EXPECT_GT(longest, columns - 20u) << text;
  }
}

TEST(Help, OfNothingListsTheSubcommands) {
  const CommandRunner command;
  const std::string all = command.run({"help"}).out;
  EXPECT_EQ(command.run({"--help"}).out, all);
  for (const std::string& name : kSubcommands) EXPECT_THAT(all, HasSubstr("\n  " + name + " "));
}

struct Misspelled {
  Words words;
  const char* said;
};

TEST(DidYouMean, OfSubcommandsAndOptions) {
  const CommandRunner command;
  for (const Misspelled& one : std::vector<Misspelled>{
           {{"verfy", "--seq", "8"}, "unknown subcommand 'verfy': did you mean verify?"},
           {{"cache", "sl"}, "unknown subcommand 'sl': did you mean ls?"},
           {{"help", "cahce"}, "unknown subcommand 'cahce': did you mean cache?"},
           {{"emit", "--casual"}, "unknown option --casual: did you mean --causal?"},
           {{"verify", "--sead=3", "--seq", "8"}, "unknown option --sead: did you mean --seed?"},
           {{"verify", "--no-caus"}, "unknown option --no-caus: did you mean --no-causal?"},
           // Suggests options of the command above it, also in the place of a required option.
           {{"cache", "ls", "--dri", "x"}, "unknown option --dri: did you mean --dir?"},
           {{"capture", "--ouput", "x"}, "unknown option --ouput: did you mean --output?"},
           {{"emit", "--zebra"}, "unknown option --zebra (see lssar emit --help)"},
           {{"dance"}, "unknown subcommand 'dance': allowed are emit, prepare, run"},
           {{"emit", "file.cu"}, "'file.cu': an argument too many (see lssar emit --help)"}}) {
    const CommandResult result = command.run(one.words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(one.said));
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  }
}

struct Number {
  Words words;
  const char* said;  // "": it is taken
};

TEST(Numbers, AreReadAsTheyAreWritten) {
  const CommandRunner command;
  for (const Number& one : std::vector<Number>{
           {{"emit", "--head-dim", "4294967360"},
            "--head-dim = 4294967360: allowed are multiples of 8 from 8 to 256"},
           {{"emit", "--p", "1e3"}, "--p = 1e3: allowed are whole numbers from 0 to 1024"},
           {{"emit", "--p", "0x10"}, "--p = 0x10: allowed are"},
           {{"emit", "--seq", "99999999999999999999"},
            "--seq = 99999999999999999999: allowed are whole numbers from 0 to 2147483647"},
           {{"emit", "--seq", "4294967296"}, "seq_q = 4294967296: allowed are"},
           {{"emit", "--offset", "much"}, "--offset = much: allowed are numbers"},
           {{"verify", "--seq", "8", "--seed", "-1"},
            "--seed = -1: allowed are whole numbers from 0 to 18446744073709551615"},
           {{"explain", "--shown", "-3"}, "--shown = -3: allowed are whole numbers from 0"},
           {{"tune", "--jobs", "257"}, "--jobs = 257: allowed are whole numbers from 1 to 256"},
           {{"emit", "--p", "15.0"}, ""},
           {{"emit", "--p", "+15"}, ""},
           {{"emit", "--p", "015"}, ""}}) {  // not 13, as C reads it
    const CommandResult result = command.run(one.words);
    EXPECT_EQ(result.exit_code, *one.said == '\0' ? 0 : 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(one.said));
    if (*one.said == '\0') {
      EXPECT_THAT(result.out, HasSubstr("kPower = 15"));
    }
  }
}

TEST(Lines, AreWrappedOnATerminalAndNowhereElse) {
  const CommandRunner command;
  const Words unknown = {"emit", "--target", "sm_75"};
  const std::string piped = command.run(unknown).err;
  EXPECT_EQ(lines_of(piped).size(), 1u);
  EXPECT_GT(piped.size(), 60u);
  const std::string shown = run_on_terminal(60, unknown);
  EXPECT_THAT(long_lines(shown, 60), testing::IsEmpty());
  std::string joined;
  for (const std::string& line : lines_of(shown))
    joined += (joined.empty() ? "" : " ") +
              line.substr(std::min(line.find_first_not_of(' '), line.size()));
  EXPECT_EQ(joined + "\n", piped);
}

TEST(Lines, OfACommandGoOnAfterABackslash) {
  const std::string shown = run_on_terminal(
      70, {"prepare", "--head-dim", "16", "--dtype", "fp32", "--device", "virtual"});
  EXPECT_THAT(long_lines(shown, 70), testing::IsEmpty()) << shown;
  const size_t at = shown.find("\nlssar prepare --pass forward");
  ASSERT_NE(at, shown.npos) << shown;
  const std::vector<std::string> lines = lines_of(shown.substr(at + 1));
  ASSERT_GT(lines.size(), 2u);
  for (size_t i = 0; i + 1 < lines.size(); ++i) EXPECT_TRUE(lines[i].ends_with(" \\")) << lines[i];
}

TEST(Warnings, AreShownByTheCommandUnlessLssarLogSaysOtherwise) {
  const CommandRunner command;
  const Words words = {"prepare", "--head-dim", "16", "--dtype", "fp32", "--device", "virtual"};
  const std::string bad = "LSSAR_CACHE_DIR=" + command.write("file", "no folder");
  EXPECT_THAT(command.run(words, {bad}).err, HasSubstr("lssar warning: "));
  EXPECT_EQ(command.run(words, {bad, "LSSAR_LOG=none"}).err, "");
}

// The words that bash would offer for the last of `words`.
std::string completed(const CommandRunner& command, const Words& words) {
  const std::string script = command.write("completion", command.run({"completion", "bash"}).out);
  std::string line = "source " + script + "; COMP_WORDS=(";
  for (const std::string& word : words) line += " '" + word + "'";
  line += "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lssar; echo ${COMPREPLY[*]}";
  const std::string file = command.write("ask", line);
  const std::string out = command.path("offered");
  EXPECT_EQ(std::system(("bash " + file + " >" + out).c_str()), 0);
  std::ifstream offered(out);
  return {std::istreambuf_iterator<char>(offered), {}};
}

TEST(Completion, OfBash) {
  const CommandRunner command;
  EXPECT_EQ(completed(command, {"lssar", "ver"}), "verify\n");
  EXPECT_EQ(completed(command, {"lssar", "cache", "p"}), "prune\n");
  EXPECT_EQ(completed(command, {"lssar", "verify", "--see"}), "--seed\n");
  EXPECT_EQ(completed(command, {"lssar", "verify", "--dtype", ""}), "bf16 fp16 fp32\n");
  EXPECT_EQ(completed(command, {"lssar", "verify", "--dtype", "=", "f"}), "fp16 fp32\n");
  EXPECT_EQ(completed(command, {"lssar", "--version", "emit", "--pass", "back"}), "backward\n");
  EXPECT_EQ(completed(command, {"lssar", "cache", "ls", "--di"}), "--dir\n");
  EXPECT_EQ(completed(command, {"lssar", "verify", "--seq", ""}), "\n");      // a number
  EXPECT_EQ(completed(command, {"lssar", "verify", "--problem", ""}), "\n");  // a file: bash's own
  EXPECT_EQ(command.run({"completion", "tcsh"}).exit_code, 2);
}

TEST(ManPage, HasEveryOptionAndNoWarningOfGroff) {
  const CommandRunner command;
  const CommandResult page = command.run({"help", "--man"});
  ASSERT_EQ(page.exit_code, 0);
  for (const char* part :
       {".TH LSSAR 1", ".SS lssar cache prune", ".B \\-\\-kv\\-heads N", ".SH EXIT STATUS"})
    EXPECT_THAT(page.out, HasSubstr(part));
  if (std::system("command -v groff >/dev/null") != 0) GTEST_SKIP() << "no groff";
  const std::string out = command.path("warnings");
  EXPECT_EQ(std::system(("groff -man -Tutf8 -ww -rLL=78n " + command.write("lssar.1", page.out) +
                         " >/dev/null 2>" + out)
                            .c_str()),
            0);
  EXPECT_EQ(std::filesystem::file_size(out), 0u);
}

}  // namespace
}  // namespace lssar
