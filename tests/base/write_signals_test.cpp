// A write of the library never ends the program that it is in: files beyond `ulimit -f`, pipes
// without a reader.
#include "base/write_signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "autotune/table/tuning_table.h"
#include "base/file.h"
#include "base/log.h"
#include "cache/store.h"
#include "compile/compile_failure.h"
#include "tests/autotune/sample_records.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

constexpr rlim_t kLimitBytes = 512;

// Runs `body` in a child whose files have at most kLimitBytes, and whose signals act as they do by
// default; whether it came to its end and returned true.
bool survives(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit = {kLimitBytes, kLimitBytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_DFL);
    ::signal(SIGPIPE, SIG_DFL);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_FALSE(WIFSIGNALED(status)) << "ended by signal " << WTERMSIG(status);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class WriteSignals : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string much_ = std::string(100 * kLimitBytes, 'x');
};

TEST_F(WriteSignals, AFileBeyondTheLimitIsAnError) {
  EXPECT_TRUE(survives([&] {
    const Status status = write_file_atomically(folder_ / "a", much_);
    return status.code() == StatusCode::kIoError &&
           status.message().find("File too large") != std::string::npos;
  }));
  EXPECT_TRUE(names_in(folder_.path()).empty());
}

TEST_F(WriteSignals, ACacheGoesOnFromMemory) {
  EXPECT_TRUE(survives([&] {
    const auto store = Store::open({.directory = folder_ / "cache"});
    CacheKeyBuilder key;
    key.add("source", "a");
    std::string noise(100 * kLimitBytes, '\0');  // which does not become small
    uint32_t state = 1;
    for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    const auto made = store->get_or_compute(
        key.hex(),
        [&]() -> Result<CacheEntry> {
          return CacheEntry{"{}", noise};
        },
        nullptr);
    return made.ok() && (*made)->payload == noise && store->stats().write_failures == 1;
  }));
}

TEST_F(WriteSignals, ATuningTableIsAsItWas) {
  TuningRecord record = sample_record();
  record.reason = much_;
  EXPECT_TRUE(survives(
      [&] { return append_records(folder_ / "table", {record}).code() == StatusCode::kIoError; }));
  EXPECT_EQ(slurp(folder_ / "table"), "");
}

TEST_F(WriteSignals, ASourceThatDoesNotCompileIsNotDumped) {
  CompileRequest request;
  request.name = "kernel";
  request.source = much_;
  EXPECT_TRUE(survives([&] {
    ::setenv("LSSAR_DUMP_DIR", folder_.path().c_str(), 1);
    return dump_source(request).status().code() == StatusCode::kIoError;
  }));
  EXPECT_TRUE(names_in(folder_.path()).empty());
}

TEST_F(WriteSignals, TheLogIsLost) {
  EXPECT_TRUE(survives([&] {
    ::setenv("LSSAR_LOG", "info", 1);
    ::dup2(::open((folder_ / "log").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    for (int i = 0; i < 3; ++i) log(LogLevel::kInfo, much_);
    int ends[2];
    if (::pipe(ends) != 0) return false;
    ::close(ends[0]);
    ::dup2(ends[1], STDERR_FILENO);
    log(LogLevel::kInfo, "nobody reads this");
    return true;
  }));
}

// Signals that were pending, or blocked, before stay so: they are the program's.
TEST_F(WriteSignals, TheProgramsOwnSignalsAreLeftAlone) {
  EXPECT_TRUE(survives([&] {
    sigset_t one, pending, mask;
    sigemptyset(&one);
    sigaddset(&one, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &one, nullptr);
    ::raise(SIGPIPE);
    if (write_file_atomically(folder_ / "a", much_).ok()) return false;
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    return sigismember(&pending, SIGPIPE) == 1 && sigismember(&pending, SIGXFSZ) == 0 &&
           sigismember(&mask, SIGPIPE) == 1 && sigismember(&mask, SIGXFSZ) == 0;
  }));
}

}  // namespace
}  // namespace lssar
