// Ctrl-C and SIGTERM end the command by the signal, and leave nothing half written.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/npy.h"
#include "tests/command/command_runner.h"

extern char** environ;

namespace lssar {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr std::chrono::seconds kPatience(60);
constexpr std::chrono::milliseconds kPause(5);

bool wait_until(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(folder))
    names.push_back(item.path().filename());
  return names;
}

class InterruptCommand : public testing::Test {
 protected:
  // Starts the command; its output goes to the file `out` of the folder.
  // or, where it is given, to `out`.
  pid_t start(std::vector<std::string> words, bool ignores_interrupt = false, int out = -1) {
    const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lssar";
    words.insert(words.begin(), program);
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (ignores_interrupt) ::signal(SIGINT, SIG_IGN);
    if (out < 0) out = ::open(command_.path("out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::setenv("TMPDIR", command_.path("tmp").c_str(), 1);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  // The signal that ended it; 0 if none did.
  int end_of(pid_t child) {
    int status = 0;
    const bool has_ended = wait_until([&] { return ::waitpid(child, &status, WNOHANG) == child; });
    EXPECT_TRUE(has_ended);
    if (!has_ended) ::kill(child, SIGKILL), ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  void SetUp() override { std::filesystem::create_directory(command_.path("tmp")); }
  std::string printed() const {
    std::ifstream file(command_.path("out"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  CommandRunner command_;
};

TEST_F(InterruptCommand, LongWorkEndsByTheSignal) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child =
        start({"verify", "--seq", "60000", "--head-dim", "16", "--device", "virtual"});
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::kill(child, signal);
    EXPECT_EQ(end_of(child), signal);
  }
}

TEST_F(InterruptCommand, ALongRunSaysHowLong) {
  const pid_t child =
      start({"verify", "--seq", "100000", "--head-dim", "16", "--device", "virtual"});
  EXPECT_TRUE(wait_until([&] { return printed().find("s left") != std::string::npos; }));
  ::kill(child, SIGINT);
  EXPECT_EQ(end_of(child), SIGINT);
  EXPECT_THAT(printed(), testing::HasSubstr(" %, 2 s, about "));
}

TEST_F(InterruptCommand, ALongReferenceIsSaidBefore) {
  const pid_t child =
      start({"verify", "--seq", "4500", "--head-dim", "256", "--device", "virtual"});
  EXPECT_TRUE(wait_until([&] { return printed().find("takes long") != std::string::npos; }));
  ::kill(child, SIGINT);
  EXPECT_EQ(end_of(child), SIGINT);
  EXPECT_THAT(printed(), testing::HasSubstr("the float64 reference: 1.0e+10 multiply-adds"));
}

// dq.npy is complete, under a temporary name, while the command waits for a reader of dk.npy.
TEST_F(InterruptCommand, FilesThatBelongTogetherLeaveNothing) {
  const std::vector<int64_t> shape = {1, 1, 2, 8};
  const std::string q = command_.path("q.npy"), out = command_.path("results");
  ASSERT_TRUE(write_npy_float32(q, shape, std::vector<float>(16, 0.5f)).ok());
  std::filesystem::create_directory(out);
  ASSERT_EQ(::mkfifo((out + "/dk.npy").c_str(), 0600), 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child = start({"run", "--pass", "backward", "--q", q, "--k", q, "--v", q, "--do", q,
                               "--out", out, "--device", "virtual"});
    EXPECT_TRUE(wait_until([&] { return names_in(out).size() == 2; })) << printed();
    ::kill(child, signal);
    EXPECT_EQ(end_of(child), signal);
    EXPECT_THAT(names_in(out), UnorderedElementsAre("dk.npy"));
  }
}

TEST_F(InterruptCommand, OneThatWasIgnoredBeforeStaysIgnored) {
  const std::string fifo = command_.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const pid_t child = start({"emit", "-o", fifo}, true);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::kill(child, SIGINT);
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
  ::kill(child, SIGTERM);
  EXPECT_EQ(end_of(child), SIGTERM);
}

// Ctrl-\\, `ulimit -t`, `timeout -s`, the warnings of batch systems: a temporary is under way while
// the command waits for a reader of the other file.
TEST_F(InterruptCommand, NoSignalLeavesATemporary) {
  const std::vector<int64_t> shape = {1, 1, 2, 8};
  const std::string q = command_.path("q.npy"), out = command_.path("results");
  ASSERT_TRUE(write_npy_float32(q, shape, std::vector<float>(16, 0.5f)).ok());
  std::filesystem::create_directory(out);
  ASSERT_EQ(::mkfifo((out + "/dk.npy").c_str(), 0600), 0);
  for (const int signal : {SIGQUIT, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2, SIGPIPE}) {
    const pid_t child = start({"run", "--pass", "backward", "--q", q, "--k", q, "--v", q, "--do", q,
                               "--out", out, "--device", "virtual"});
    EXPECT_TRUE(wait_until([&] { return names_in(out).size() == 2; })) << printed();
    ::kill(child, signal);
    EXPECT_EQ(end_of(child), signal);
    EXPECT_THAT(names_in(out), UnorderedElementsAre("dk.npy")) << signal;
  }
}

// `lssar tune ... | head -1`: no guard holds the signal back from the search, and its workers'
// folder is removed.
TEST_F(InterruptCommand, AReaderThatHasGoneEndsASearch) {
  ::setenv("LSSAR_CACHE_DIR", "none", 1);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = start({"tune", "--head-dim", "16", "--seq", "64", "--device", "virtual",
                             "--target", "sm_80", "--budget", "full", "--table", "none"},
                            false, ends[1]);
  ::close(ends[1]);
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::is_empty(command_.path("tmp")); }));
  ::close(ends[0]);
  EXPECT_EQ(end_of(child), SIGPIPE);
  for (const std::string& name : names_in(command_.path("tmp")))
    EXPECT_THAT(name, testing::EndsWith(".lock"));
}

// Ends at its next step: results are kept, workers and their folder are gone.
TEST_F(InterruptCommand, ASearchKeepsWhatItHasAndEndsByTheSignal) {
  const std::string table = command_.path("table.jsonl");
  ::setenv("LSSAR_CACHE_DIR", "none", 1);
  const pid_t child = start({"tune", "--head-dim", "16", "--seq", "64", "--device", "virtual",
                             "--target", "sm_80", "--budget", "full", "--table", table});
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::is_empty(command_.path("tmp")); }));
  ::kill(child, SIGTERM);
  EXPECT_EQ(end_of(child), SIGTERM);
  EXPECT_THAT(printed(), testing::HasSubstr("interrupted"));
  for (const std::string& name : names_in(command_.path("tmp")))
    EXPECT_THAT(name, testing::EndsWith(".lock"));
}

}  // namespace
}  // namespace lssar
