// LSSAR_OVERRIDE_DIR: edit, run, compare, as a user does it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/command_runner.h"

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
    std::filesystem::create_directory(folder_);
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
  edit("static constexpr int kPower = 15;", "static constexpr int kPower = 14 + 1;");
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

TEST_F(Override, OneThatDoesNotCompileIsAnError) {
  edit("static constexpr int kPower = 15;", "static constexpr int kPower = fifteen;");
  const CommandResult result = verify();
  EXPECT_EQ(result.exit_code, 4) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("fifteen"));
}

TEST_F(Override, OtherKernelsAreGenerated) {
  edit("static constexpr float kOffset = 1.0f;", "static constexpr float kOffset = 0.5f;");
  const CommandResult result = verify("41");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("instead of what is generated")));
}

TEST_F(Override, OneThatCannotBeReadIsNotPassedOver) {
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  const CommandResult result = verify();
  EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(path_));
}

}  // namespace
}  // namespace lssar
