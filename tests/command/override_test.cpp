// LSSAR_OVERRIDE_DIR: edit, run, compare, as a user does it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Override : public testing::Test {
 protected:
  void SetUp() override {
    const CommandResult emitted = command_.run(
        {"emit", "--head-dim", "32", "--target", "sm_80", "--seq", "40", "--override", folder_});
    ASSERT_EQ(emitted.exit_code, 0) << emitted.err;
    path_ = emitted.out.substr(0, emitted.out.find('\n'));
    ASSERT_TRUE(std::filesystem::exists(path_)) << path_;
  }

  // Replaces `from`, which must be there.
  void edit(const std::string& from, const std::string& to) {
    std::string text = read_text(path_);
    const size_t at = text.find(from);
    ASSERT_NE(at, text.npos) << from;
    std::ofstream(path_, std::ios::binary) << text.replace(at, from.size(), to);
  }

  CommandResult verify(const std::string& seq = "40") const {
    return command_.run(
        {"verify", "--head-dim", "32", "--target", "sm_80", "--seq", seq, "--device", "virtual"},
        {"LSSAR_OVERRIDE_DIR=" + folder_});
  }

  CommandRunner command_;
  std::string folder_ = command_.path("edited");
  std::string path_;
};

TEST_F(Override, WhatIsRightStaysRightAndIsNamed) {
  edit("static constexpr int kHeadDim = 32;", "static constexpr int kHeadDim = 16 + 16;");
  const CommandResult result = verify();
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr(path_ + ", instead of what is generated"));
}

TEST_F(Override, OneThatBreaksTheNumbersIsCaughtAndNamed) {
  edit("static constexpr float kOffset = 1.0f;", "static constexpr float kOffset = 0.5f;");
  const CommandResult result = verify();
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("WRONG NUMBERS"));
  EXPECT_THAT(result.out, HasSubstr(path_ + ", instead of what is generated"));
}

TEST_F(Override, OneThatDoesNotCompileIsAnErrorThatNamesIt) {
  edit("static constexpr int kHeadDim = 32;", "static constexpr int kHeadDim = thirty_two;");
  const CommandResult result = verify();
  EXPECT_EQ(result.exit_code, 4) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("thirty_two"));
  EXPECT_THAT(result.err, HasSubstr("'" + path_ + "' (LSSAR_OVERRIDE_DIR)"));
}

// What is printed of a generated kernel must not be taken for the edited one's.
TEST_F(Override, WithoutAFileOfTheKernelTheCommandFails) {
  edit("static constexpr float kOffset = 1.0f;", "static constexpr float kOffset = 0.5f;");
  const std::vector<std::string> other = {"--head-dim", "32",       "--target",
                                          "sm_80",      "--device", "virtual"};
  for (std::vector<std::string> words :
       {std::vector<std::string>{"verify", "--seq", "41"},
        {"prepare"},
        {"capture", "--seq", "41", "-o", command_.path("a.lssar")}}) {
    words.insert(words.end(), other.begin(), other.end());
    const CommandResult result =
        command_.run(words, {"LSSAR_OVERRIDE_DIR=" + folder_, "LSSAR_LOG=warning"});
    EXPECT_EQ(result.exit_code, 2) << words[0] << result.out << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("correct"))) << words[0];
    EXPECT_THAT(result.err, HasSubstr("LSSAR_OVERRIDE_DIR overrides no kernel of this command"));
    EXPECT_THAT(result.err, HasSubstr(path_.substr(path_.rfind('/') + 1))) << words[0];
    EXPECT_THAT(result.err, HasSubstr("lssar warning: lssar_forward")) << words[0];
  }
  EXPECT_FALSE(std::filesystem::exists(command_.path("a.lssar")));
}

TEST_F(Override, OneOfTwoKernelsIsEnoughAndTheOtherIsNamed) {
  const std::vector<std::string> problem = {"--head-dim", "32", "--target", "sm_80",
                                            "--seq",      "40", "--pass",   "backward"};
  std::vector<std::string> emit = {"emit", "--override", folder_},
                           verify = {"verify", "--device", "virtual"};
  emit.insert(emit.end(), problem.begin(), problem.end());
  verify.insert(verify.end(), problem.begin(), problem.end());
  ASSERT_EQ(command_.run(emit).exit_code, 0);
  const CommandResult result = command_.run(verify, {"LSSAR_OVERRIDE_DIR=" + folder_});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr(", instead of what is generated"));
  EXPECT_THAT(result.out, HasSubstr(" is generated: '" + folder_ + "' has no "));
}

TEST_F(Override, OneThatCannotBeReadIsNotPassedOver) {
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  const CommandResult result = verify();
  EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(path_));
}

TEST_F(Override, AFolderThatIsMissingIsAnError) {
  std::filesystem::remove_all(folder_);
  const CommandResult result = verify();
  EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("LSSAR_OVERRIDE_DIR: cannot use folder '" + folder_ + "'"));
}

TEST_F(Override, WhatOthersCouldHaveWrittenIsNotUsed) {
  const auto refusal = [&](const std::string& path, mode_t mode) {
    struct stat before = {};
    EXPECT_EQ(::stat(path.c_str(), &before), 0);
    ::chmod(path.c_str(), mode);
    const CommandResult result = verify();
    ::chmod(path.c_str(), before.st_mode & 07777);
    EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
    return result.err;
  };
  EXPECT_THAT(refusal(folder_, 0777), HasSubstr("has mode 0777"));
  EXPECT_THAT(refusal(folder_, 0770), HasSubstr("has mode 0770"));
  EXPECT_THAT(refusal(path_, 0664), HasSubstr("has mode 0664"));
  std::filesystem::rename(path_, command_.path("elsewhere.cu"));
  std::filesystem::create_symlink(command_.path("elsewhere.cu"), path_);
  EXPECT_EQ(verify().exit_code, 5);
}

TEST_F(Override, FilesOfAnotherUserAreNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  for (const std::string& path : {folder_, path_}) {
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    const CommandResult result = verify();
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
    EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr("'" + path + "' belongs to user 12345"));
  }
}

// The block of docs/debugging.md as it stands, with an editor that changes a constant.
TEST_F(Override, TheDocumentedExampleRunsTheEditedKernel) {
  const std::string page = read_text(LSSAR_SOURCE_FOLDER "/docs/debugging.md");
  const size_t heading = page.find("## Editing a kernel: `LSSAR_OVERRIDE_DIR`");
  ASSERT_NE(heading, page.npos);
  const size_t begin = page.find("```\n", heading) + 4, end = page.find("```", begin);
  const auto bin = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  const std::string script =
      command_.write("example.sh", "set -e; umask 022; PATH=" + bin + ":$PATH\n" +
                                       page.substr(begin, end - begin));
  const auto run = [&](const std::string& edit) {
    const std::string line = "cd " + command_.path("") + " && rm -rf edited && EDITOR='" + edit +
                             "' sh " + script + " >said 2>&1";
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(run("sed -i s/kPower.=.15/kPower=14+1/"), 0) << read_text(command_.path("said"));
  EXPECT_THAT(read_text(command_.path("said")), HasSubstr(", instead of what is generated"));
  EXPECT_EQ(run("sed -i s/kOffset.=.1.0f/kOffset=0.5f/"), 1) << read_text(command_.path("said"));
  EXPECT_THAT(read_text(command_.path("said")), HasSubstr("WRONG NUMBERS"));
}

}  // namespace
}  // namespace lssar
