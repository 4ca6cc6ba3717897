#include "autotune/search/gpu_lock.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/log.h"

namespace lssar {
namespace {

class GpuLockTest : public testing::Test {
 protected:
  GpuLockTest() {
    char pattern[] = "/tmp/lssar_lock_XXXXXX";
    directory_ = mkdtemp(pattern);
    setenv("TMPDIR", directory_.c_str(), 1);
  }
  ~GpuLockTest() override {
    unsetenv("TMPDIR");
    std::filesystem::remove_all(directory_);
  }

  std::string directory_;
};

TEST_F(GpuLockTest, OneHoldsItAtATime) {
  Result<GpuLock> first = GpuLock::take("0000:3b:00", 0);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ(first->path(), directory_ + "/lssar-tune-0000_3b_00.lock");
  const Result<GpuLock> second = GpuLock::take("0000:3b:00", 0);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kDeviceError);
  EXPECT_NE(second.status().message().find(first->path()), std::string::npos);
  EXPECT_TRUE(GpuLock::take("0000:5e:00", 0).ok());
  { const GpuLock dropped = std::move(*first); }
  EXPECT_TRUE(GpuLock::take("0000:3b:00", 0).ok());
}

// Processes that start in different folders would not find each other.
TEST_F(GpuLockTest, AFolderThatIsNoneLeavesTheSystemsOwn) {
  for (const char* folder : {"relative", ".", "/nowhere/at/all", "/dev/null"}) {
    setenv("TMPDIR", folder, 1);
    const Result<GpuLock> lock = GpuLock::take(fmt::format("test-{}", getpid()), 0);
    ASSERT_TRUE(lock.ok()) << lock.status().to_string();
    EXPECT_EQ(lock->path(), fmt::format("/tmp/lssar-tune-test-{}.lock", getpid()));
    unlink(lock->path().c_str());
  }
  setenv("TMPDIR", "/proc", 1);  // where nobody can make a file
  const Result<GpuLock> none = GpuLock::take("gpu", 0);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("'/proc/lssar-tune-gpu.lock' (in TMPDIR, else /tmp)"),
            std::string::npos)
      << none.status().message();
}

TEST_F(GpuLockTest, WaitingEndsWhenTheCallerCancels) {
  const Result<GpuLock> held = GpuLock::take("gpu", 0);
  ASSERT_TRUE(held.ok());
  int asked = 0;
  const Result<GpuLock> waiting = GpuLock::take("gpu", 3600, [&] { return ++asked == 3; });
  EXPECT_FALSE(waiting.ok());
  EXPECT_EQ(asked, 3);
}

// Once, by the holder's number.
TEST_F(GpuLockTest, TheWaitingLineNamesTheHolder) {
  const Result<GpuLock> held = GpuLock::take("gpu", 0);
  ASSERT_TRUE(held.ok());
  std::vector<std::string> told;
  set_log_callback([&](LogLevel, std::string_view text) { told.emplace_back(text); },
                   LogLevel::kWarning);
  int asked = 0;
  EXPECT_FALSE(GpuLock::take("gpu", 3600, [&] { return ++asked == 4; }).ok());
  EXPECT_FALSE(GpuLock::take("gpu", 0).ok());  // does not wait
  set_log_callback(nullptr, LogLevel::kWarning);
  std::stringstream locks;  // empty where the system does not tell
  locks << std::ifstream("/proc/locks").rdbuf();
  const bool is_known = locks.str().find(fmt::format(" {} ", ::getpid())) != std::string::npos;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(
      told[0],
      fmt::format("another process{} is tuning on this device: waiting for it, at most 3600 s",
                  is_known ? fmt::format(" (process {})", ::getpid()) : ""));
}

TEST_F(GpuLockTest, AKilledHolderLetsGo) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Result<GpuLock> held = GpuLock::take("gpu", 0);
    const char ok = held.ok() ? 'y' : 'n';
    if (write(ready[1], &ok, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, 'y');
  EXPECT_FALSE(GpuLock::take("gpu", 0).ok());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(GpuLock::take("gpu", 10).ok());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(GpuLockTest, ALinkOrDirectoryInItsPlaceIsAnError) {
  std::filesystem::create_symlink("/dev/null", directory_ + "/lssar-tune-link.lock");
  const Result<GpuLock> link = GpuLock::take("link", 0);
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(link.status().code(), StatusCode::kIoError);
  std::filesystem::create_directory(directory_ + "/lssar-tune-folder.lock");
  const Result<GpuLock> folder = GpuLock::take("folder", 0);
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().message().find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace lssar
