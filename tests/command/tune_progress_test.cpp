// What `lssar tune` shows while it searches: the bar of a terminal, the lines of a file.
#include "tools/lssar/terminal/tune_progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace lssar::command {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

SearchProgress half_of_the_blocks() {
  SearchProgress progress;
  progress.stage = Stage::kBlocks;
  progress.done = 14;
  progress.total = 28;
  progress.best_ms = 0.412345;
  progress.elapsed_s = 14;
  progress.limit_s = 120;
  return progress;
}

// Standard error is `file` while one lives.
class StandardError {
 public:
  explicit StandardError(int file) : before_(::dup(STDERR_FILENO)) {
    std::fflush(stderr);
    ::dup2(file, STDERR_FILENO);
  }
  ~StandardError() {
    std::fflush(stderr);
    std::clearerr(stderr);
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

 private:
  const int before_;
};

std::string shown_on_terminal(unsigned short columns, const SearchProgress& progress) {
  int terminal = -1, program = -1;
  winsize size = {25, columns, 0, 0};
  EXPECT_EQ(::openpty(&terminal, &program, nullptr, nullptr, &size), 0);
  {
    const StandardError redirected(program);
    TuneProgress bar(true, false);
    bar.show(progress);
    bar.end();
  }
  ::close(program);
  std::string text;
  char bytes[1024];
  for (ssize_t got; (got = ::read(terminal, bytes, sizeof(bytes))) > 0;)
    text.append(bytes, static_cast<size_t>(got));
  ::close(terminal);
  return text;
}

TEST(TuneProgress, TheLineSaysStageBestAndTime) {
  EXPECT_EQ(progress_line(half_of_the_blocks()),
            "[============            ] blocks 14 of 28, best 0.4123 ms, 14 s, at most 106 s left");
  SearchProgress start;
  EXPECT_EQ(progress_line(start), "[                        ] enumerate 0 of 0, 0 s");
  SearchProgress late = half_of_the_blocks();
  late.done = 30;  // more than its stage has
  late.elapsed_s = 125;
  EXPECT_THAT(progress_line(late), testing::StartsWith("[========================] blocks 30"));
  EXPECT_THAT(progress_line(late), EndsWith("125 s, at most 0 s left"));
}

TEST(TuneProgress, ATerminalGetsABarThatIsRedrawn) {
  EXPECT_EQ(shown_on_terminal(100, half_of_the_blocks()),
            "\r[============            ] blocks 14 of 28, best 0.4123 ms, 14 s, at most 106 s "
            "left\x1b[K\r\n");
  // A line that went on in the next row could not be redrawn.
  EXPECT_EQ(shown_on_terminal(40, half_of_the_blocks()),
            "\r[============            ] blocks 14 of\x1b[K\r\n");
}

TEST(TuneProgress, AFileGetsALinePerStage) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    const StandardError redirected(ends[1]);
    TuneProgress lines(false, false), quiet(false, true);
    SearchProgress progress = half_of_the_blocks();
    lines.show(progress);
    quiet.show(progress);
    progress.done = 20;
    lines.show(progress);
    progress.stage = Stage::kFinal;
    lines.show(progress);
    lines.end();
  }
  ::close(ends[1]);
  char bytes[1024];
  const ssize_t got = ::read(ends[0], bytes, sizeof(bytes));
  ::close(ends[0]);
  const std::string text(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  EXPECT_THAT(text, HasSubstr("blocks 14 of 28"));
  EXPECT_THAT(text, HasSubstr("final 20 of 28"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

TEST(TuneProgress, AFullStandardErrorIsNoReasonToEnd) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  {
    const StandardError redirected(full);
    for (const bool is_terminal : {false, true}) {
      TuneProgress progress(is_terminal, false);
      EXPECT_NO_THROW(progress.begin("1 of 1"));
      EXPECT_NO_THROW(progress.show(half_of_the_blocks()));
      EXPECT_NO_THROW(progress.end());
    }
  }
  ::close(full);
}

}  // namespace
}  // namespace lssar::command
