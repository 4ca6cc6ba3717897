// Where the command writes and prints: every -o goes where the user's path says, and lost output is
// an error.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "base/npy.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Makes a FIFO, and reads it until text() is asked for.
class FifoReader {
 public:
  explicit FifoReader(const std::string& path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    // A reader that does not wait for a writer: there may be none.
    fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    thread_ = std::thread([this] { read_all(); });
  }
  ~FifoReader() { text(); }
  const std::string& text() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
    ::close(std::exchange(fd_, -1));
    return text_;
  }

 private:
  void read_all() {
    std::array<char, 4096> buffer;
    for (;;) {
      const bool was_over = is_over_;
      const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
      if (n > 0) text_.append(buffer.data(), static_cast<size_t>(n));
      if (n <= 0 && was_over) return;
      if (n <= 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  int fd_ = -1;
  std::atomic<bool> is_over_{false};
  std::string text_;
  std::thread thread_;
};

class OutputCommand : public testing::Test {
 protected:
  CommandResult run(const Words& words) const { return command_.run(words); }
  // With its standard output and error as the shell's `redirections` say.
  CommandResult redirected(const Words& words, const std::string& redirections) const {
    return command_.run(words, {}, {.redirections = redirections});
  }

  std::string empty_table() const { return command_.write("table.jsonl", ""); }
  std::string empty_cache() const {
    std::filesystem::create_directory(command_.path("places"));
    std::filesystem::permissions(command_.path("places"), std::filesystem::perms::owner_all);
    return command_.path("places");
  }
  // Every way to write one file, without its name.
  std::vector<Words> writers() const {
    const Words small = {"--head-dim", "16", "--device", "virtual", "--target", "sm_80"};
    return {
        {"emit", "-o"},
        with(with({"capture"}, small), {"--seq", "8", "-o"}),
        with(with({"report"}, small), {"--seq", "64", "--no-compile", "--shown", "1", "-o"}),
        {"cache", "--dir", empty_cache(), "export"},
    };
  }

  CommandRunner command_;
};

TEST_F(OutputCommand, AFifoIsWrittenThroughByEveryWriter) {
  for (const Words& writer : writers()) {
    const std::string fifo = command_.path("fifo-" + writer[0]);
    FifoReader reader(fifo);
    const CommandResult result = run(with(writer, {fifo}));
    EXPECT_EQ(result.exit_code, 0) << writer[0] << result.err;
    EXPECT_TRUE(std::filesystem::is_fifo(fifo)) << writer[0];
    EXPECT_FALSE(reader.text().empty()) << writer[0];
  }
}

TEST_F(OutputCommand, AReadOnlyFileIsKeptByEveryWriter) {
  const std::string path = command_.write("kept", "old");
  ::chmod(path.c_str(), 0444);
  for (const Words& writer : writers()) {
    const CommandResult result = run(with(writer, {path}));
    EXPECT_EQ(result.exit_code, 5) << writer[0];
    EXPECT_THAT(result.err, HasSubstr("'" + path + "' is read-only")) << writer[0];
    EXPECT_EQ(read_text(path), "old") << writer[0];
  }
}

TEST_F(OutputCommand, ALinkStaysWithEveryWriter) {
  for (const Words& writer : writers()) {
    const std::string link = command_.path("link-" + writer[0]);
    std::filesystem::create_symlink("target-" + writer[0], link);
    const CommandResult result = run(with(writer, {link}));
    EXPECT_EQ(result.exit_code, 0) << writer[0] << result.err;
    EXPECT_TRUE(std::filesystem::is_symlink(link)) << writer[0];
    EXPECT_TRUE(std::filesystem::is_regular_file(command_.path("target-" + writer[0])));
  }
}

TEST_F(OutputCommand, ADashIsStandardOutputWithNothingElseInIt) {
  for (const Words& writer : writers()) {
    const std::string path = command_.path("file-" + writer[0]);
    ASSERT_EQ(run(with(writer, {path})).exit_code, 0) << writer[0];
    const CommandResult result = run(with(writer, {"-"}));
    EXPECT_EQ(result.exit_code, 0) << writer[0] << result.err;
    EXPECT_EQ(result.out.size(), read_text(path).size()) << writer[0];
    EXPECT_EQ(result.out.substr(0, 8), read_text(path).substr(0, 8)) << writer[0];
  }
  EXPECT_FALSE(std::filesystem::exists("-"));
}

// Without a compiler nothing could be run: the file is looked at before.
TEST_F(OutputCommand, AResultThatCannotBeWrittenIsSaidBeforeTheRun) {
  const std::string folder = command_.path("results");
  std::filesystem::create_directory(folder);
  for (const auto& [pass, name] :
       {std::pair("forward", "/o.npy"), std::pair("backward", "/dk.npy")}) {
    std::ofstream(folder + name) << "old";
    ::chmod((folder + name).c_str(), 0444);
    const CommandResult result =
        command_.run({"run", "--random", "--pass", pass, "--head-dim", "16", "--seq", "8",
                      "--device", "virtual", "--out", folder},
                     {"LSSAR_NVRTC_PATH=none", "LSSAR_LLVM_PATH=none"});
    EXPECT_EQ(result.exit_code, 5) << result.err;
    EXPECT_THAT(result.err, HasSubstr(folder + name + "' is read-only"));
  }
}

TEST_F(OutputCommand, ANumberThatIsNotOpenIsAnError) {
  for (const Words& writer : writers()) {
    const CommandResult result = run(with(writer, {"/dev/fd/77"}));
    EXPECT_EQ(result.exit_code, 5) << writer[0];
    EXPECT_THAT(result.err, HasSubstr("cannot write '/dev/fd/77': No such file")) << writer[0];
  }
}

TEST_F(OutputCommand, AStrangeNameIsPrintedWithoutItsControlCharacters) {
  for (const Words& writer : writers()) {
    const CommandResult result = run(with(writer, {command_.path("a\x1b[31mb")}));
    EXPECT_EQ(result.exit_code, 0) << writer[0] << result.err;
    EXPECT_EQ((result.out + result.err).find('\x1b'), std::string::npos) << writer[0];
  }
}

// As under `ulimit -u`: with this much stack each, no thread fits.
TEST_F(OutputCommand, WithoutThreadsItWorksOrSaysWhy) {
  const CommandShell no_threads = {.before = "ulimit -s 1048576 && ulimit -v 800000 && "};
  const CommandResult emit = command_.run({"emit", "-q"}, {}, no_threads);
  EXPECT_EQ(emit.exit_code, 0) << emit.err;
  EXPECT_THAT(emit.out, StartsWith("// lssar_forward"));
  const CommandResult doctor = command_.run({"doctor"}, {}, no_threads);
  EXPECT_NE(doctor.exit_code, -1) << doctor.err;  // no signal ended it
}

TEST_F(OutputCommand, ReportWithoutANameReplacesNothing) {
  const Words report = {"report",       "--head-dim", "16", "--seq",    "64",
                        "--no-compile", "--shown",    "1",  "--device", "virtual"};
  const auto in_folder = [&] { return command_.run(report, {}, {.folder = command_.path("")}); };
  EXPECT_EQ(in_folder().exit_code, 0);
  const std::string page = command_.path("report.html");
  EXPECT_THAT(read_text(page), StartsWith("<!doctype html>"));
  std::ofstream(page) << "mine";
  const CommandResult again = in_folder();
  EXPECT_EQ(again.exit_code, 5);
  EXPECT_THAT(again.err, HasSubstr("-o FILE"));
  EXPECT_THAT(again.err, HasSubstr("'report.html' is there already"));
  EXPECT_EQ(read_text(page), "mine");
  EXPECT_EQ(run(with(report, {"-o", page})).exit_code, 0);
  EXPECT_NE(read_text(page), "mine");
}

TEST_F(OutputCommand, TensorsAreWrittenThroughAFifo) {
  const std::vector<float> values(2 * 8, 0.5f);
  const std::vector<int64_t> shape = {1, 1, 2, 8};
  const std::string q = command_.path("q.npy");
  ASSERT_TRUE(write_npy_float32(q, shape, values).ok());
  const std::string folder = command_.path("results"), fifo = folder + "/o.npy";
  std::filesystem::create_directory(folder);
  FifoReader reader(fifo);
  const CommandResult result =
      run({"run", "--q", q, "--k", q, "--v", q, "--out", folder, "--device", "virtual"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_THAT(reader.text(), StartsWith("\x93NUMPY"));
}

TEST_F(OutputCommand, WhatAFullDeviceLosesIsAnError) {
  const std::string table = empty_table(), cache = empty_cache();
  // NOTE: as /dev/stdout is, which a faulty command would replace.
  const std::string link = command_.path("stdout");
  std::filesystem::create_symlink("/proc/self/fd/1", link);
  const std::vector<Words> all = {
      {"verify", "--seq", "8", "--head-dim", "16", "--device", "virtual"},
      {"prepare", "--head-dim", "16", "--device", "virtual"},
      {"--help"},
      {"verify", "--help"},
      {"--version"},
      {"emit"},
      {"emit", "-o", link},
      {"doctor"},
      {"cache", "--dir", cache, "ls"},
      {"cache", "--dir", cache, "stat", "--json"},
      {"cache", "--dir", cache, "export", "-"},
      {"table", "--table", table, "ls"},
      {"table", "--table", table, "ls", "--json"},
      {"table", "--table", table, "export", "-"},
      {"explain", "--head-dim", "16", "--seq", "64", "--no-compile", "--device", "virtual",
       "--json"},
  };
  for (const Words& words : all) {
    const CommandResult full = redirected(words, ">/dev/full");
    EXPECT_EQ(full.exit_code, 5) << testing::PrintToString(words) << full.err;
    EXPECT_THAT(full.err, HasSubstr("No space left on device")) << testing::PrintToString(words);
    const CommandResult closed = redirected(words, ">&-");
    EXPECT_EQ(closed.exit_code, 5) << testing::PrintToString(words) << closed.err;
    EXPECT_THAT(closed.err, HasSubstr("Bad file descriptor")) << testing::PrintToString(words);
  }
}

TEST_F(OutputCommand, AWorseFailureKeepsItsCode) {
  EXPECT_EQ(redirected({"bogus"}, ">/dev/full").exit_code, 2);
  // Nothing was printed, so nothing is lost.
  EXPECT_EQ(redirected({"emit", "-o", command_.path("a.cu")}, ">&-").exit_code, 0);
}

TEST_F(OutputCommand, AnErrorThatCannotBeShownKeepsItsCode) {
  EXPECT_EQ(redirected({"verify", "--bogus"}, "2>/dev/full").exit_code, 2);
  EXPECT_EQ(redirected({"verify", "--bogus"}, "2>&-").exit_code, 2);
  EXPECT_EQ(redirected({"emit", "--head-dim", "3"}, "2>/dev/full").exit_code, 2);
}

TEST_F(OutputCommand, AFileBeyondTheLimitIsAnError) {
  const CommandResult result = command_.run({"emit"}, {}, {.before = "ulimit -f 1; "});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("File too large"));
}

}  // namespace
}  // namespace lssar
