// Several processes want one key: how many compute it, and that none fails whatever the lock does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "cache/node_locks.h"
#include "cache/open_store.h"
#include "tests/cache/fake_file_system.h"
#include "tests/cache/run_processes.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

using std::chrono::milliseconds;

constexpr int kRanks = 64;
constexpr uint64_t kForEverMs = 600'000;  // no test waits for it unless something is wrong
const std::string wanted_key = CacheKeyBuilder().add("name", "wanted").hex();

// What is written is missing or not seen, as behind a network file system's client.
class NetworkFileSystem final : public FileSystem {
 public:
  bool hides_entries = false, loses_renames = false;

  Status prepare_folder(const std::string& path) override { return real_.prepare_folder(path); }
  Status check_folder(const std::string& path) override { return real_.check_folder(path); }
  bool is_node_local(const std::string& path) override { return real_.is_node_local(path); }
  Result<std::string> read_private(const std::string& path, uint64_t max_bytes,
                                   FileState* state) override {
    if (hides_entries) return io_error("cannot open '" + path + "': No such file or directory");
    return real_.read_private(path, max_bytes, state);
  }
  Status write(const std::string& path, std::string_view bytes,
               const std::string& temporary) override {
    if (loses_renames) return {};
    return real_.write(path, bytes, temporary);
  }
  Result<std::vector<ListedFile>> list(const std::string& folder) override {
    return real_.list(folder);
  }
  Status remove(const std::string& path, const FileState& state) override {
    return real_.remove(path, state);
  }
  Status stamp(const std::string& path, int64_t time_ns) override {
    return real_.stamp(path, time_ns);
  }
  int64_t now_ns() override { return real_.now_ns(); }

 private:
  FileSystem& real_ = posix_file_system();
};

class Locks : public ::testing::Test {
 protected:
  CacheOptions options(uint64_t timeout_ms = kForEverMs) const {
    return {.directory = folder_ / "cache",
            .layers = {"none"},
            .lock_timeout_ms = timeout_ms,
            .lock_directory = folder_ / "locks"};
  }
  // One byte per compute, by any process.
  Result<CacheEntry> compute() const {
    const int fd = ::open((folder_ / "computes").c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
    const bool is_counted = ::write(fd, "x", 1) == 1;
    ::close(fd);
    if (!is_counted) return internal_error("the compute could not be counted");
    return CacheEntry{"{}", "the right bytes"};
  }
  size_t computes() const { return slurp(folder_ / "computes").size(); }
  // 0 where the right bytes come back.
  int get(FileSystem& fs, const CacheOptions& given) const {
    const auto store = open_store(given, fs);
    const auto entry = store->get_or_compute(
        wanted_key, [this] { return compute(); }, nullptr);
    return entry.ok() && (*entry)->payload == "the right bytes" ? 0 : 1;
  }
  static Sha256Digest digest() {
    Sha256Digest digest = {};
    EXPECT_TRUE(from_hex(wanted_key, &digest));
    return digest;
  }

  TemporaryFolder folder_;
  FakeFileSystem fs_;
};

TEST_F(Locks, OneOfSixtyFourColdProcessesComputes) {
  run_processes(kRanks, [&] { return get(fs_, options()); });
  EXPECT_EQ(computes(), 1u);
}

TEST_F(Locks, ALongComputeIsWaitedFor) {
  run_processes(8, [&] {
    const auto store = open_store(options(), fs_);
    const auto entry = store->get_or_compute(
        wanted_key,
        [&] {
          std::this_thread::sleep_for(milliseconds(300));
          return compute();
        },
        nullptr);
    return entry.ok() ? 0 : 1;
  });
  EXPECT_EQ(computes(), 1u);
}

TEST_F(Locks, StoresOfOneProcessExcludeEachOtherToo) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { EXPECT_EQ(get(fs_, options()), 0); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(computes(), 1u);
}

TEST_F(Locks, AllSucceedWhereTheFolderForLocksIsAFile) {
  spill(folder_ / "locks", "in the way");
  run_processes(kRanks, [&] { return get(fs_, options()); });
  EXPECT_GE(computes(), 1u);
  EXPECT_EQ(slurp(folder_ / "locks"), "in the way");
}

TEST_F(Locks, AreNotTakenWhereOthersCouldHaveMadeTheFolderOrTheFile) {
  std::filesystem::create_directory(folder_ / "elsewhere");
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", folder_ / "locks");
  EXPECT_EQ(get(fs_, options()), 0);
  EXPECT_TRUE(names_in(folder_ / "elsewhere").empty());
  std::filesystem::remove(folder_ / "locks");

  std::filesystem::remove_all(folder_ / "cache");
  std::filesystem::create_directory(folder_ / "locks");
  ::chmod((folder_ / "locks").c_str(), 0777);
  EXPECT_EQ(get(fs_, options()), 0);
  EXPECT_TRUE(names_in(folder_ / "locks").empty());

  std::filesystem::remove_all(folder_ / "cache");
  ::chmod((folder_ / "locks").c_str(), 0700);
  std::filesystem::create_symlink(folder_ / "elsewhere/made", folder_ / "locks/lock");
  EXPECT_EQ(get(fs_, options()), 0);
  EXPECT_TRUE(names_in(folder_ / "elsewhere").empty());
  EXPECT_EQ(computes(), 3u);
}

TEST_F(Locks, AreNotTakenOnANetworkFileSystem) {
  fs_.on_network = true;
  NodeLocks locks(fs_, folder_ / "locks");
  const Result<std::string> folder = locks.folder();
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().message().find("is not known to be a file system of this machine"),
            std::string::npos);
  NodeLocks::Held held;
  EXPECT_EQ(locks.take(digest(), milliseconds(0), &held), NodeLocks::Outcome::kUnavailable);
  EXPECT_TRUE(names_in(folder_ / "locks").empty());
  const Result<std::string> usual = NodeLocks(fs_, "").folder();
  ASSERT_FALSE(usual.ok());
  EXPECT_NE(usual.status().message().find("'/dev/shm'"), std::string::npos);
  EXPECT_EQ(get(fs_, options()), 0);
}

TEST_F(Locks, TheUsualFolderIsPrivateAndNamesTheUser) {
  const Result<std::string> folder = NodeLocks(fs_, "").folder();
  if (!folder.ok()) GTEST_SKIP() << folder.status().message();
  EXPECT_TRUE(folder->ends_with("/lssar-lock-" + std::to_string(::geteuid()))) << *folder;
  struct stat info = {};
  ASSERT_EQ(::lstat(folder->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(Locks, AfterTheTimeoutNobodyWaits) {
  NodeLocks locks(fs_, folder_ / "locks");
  NodeLocks::Held held;
  ASSERT_EQ(locks.take(digest(), milliseconds(0), &held), NodeLocks::Outcome::kHeld);
  run_processes(4, [&] { return get(fs_, options(20)); });
  // A process that reads after another has written need not compute.
  EXPECT_GE(computes(), 1u);
  std::filesystem::remove_all(folder_ / "cache");
  NodeLocks::Held second;
  EXPECT_EQ(locks.take(digest(), milliseconds(20), &second), NodeLocks::Outcome::kTimeout);
}

TEST_F(Locks, AnEntryWrittenWhileTheLockWasHeldIsReadAfterTheTimeout) {
  NodeLocks locks(fs_, folder_ / "locks");
  NodeLocks::Held held;
  ASSERT_EQ(locks.take(digest(), milliseconds(0), &held), NodeLocks::Outcome::kHeld);
  EXPECT_EQ(get(fs_, options(0)), 0);  // 0: does not ask for the lock
  EXPECT_EQ(get(fs_, options(20)), 0);
  EXPECT_EQ(computes(), 1u);
}

TEST_F(Locks, AnotherKeyIsNotWaitedFor) {
  NodeLocks locks(fs_, folder_ / "locks");
  NodeLocks::Held held, other;
  ASSERT_EQ(locks.take(sha256("another"), milliseconds(0), &held), NodeLocks::Outcome::kHeld);
  EXPECT_EQ(locks.take(digest(), milliseconds(0), &other), NodeLocks::Outcome::kHeld);
}

TEST_F(Locks, AKilledHolderIsWaitedForNoLonger) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    const auto store = open_store(options(), fs_);
    (void)store->get_or_compute(
        wanted_key,
        [&]() -> Result<CacheEntry> {
          if (::write(ready[1], "x", 1) != 1) ::_exit(1);
          for (;;) ::pause();
        },
        nullptr);
    ::_exit(2);
  }
  char ignored = 0;
  ASSERT_EQ(::read(ready[0], &ignored, 1), 1);
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    ::kill(holder, SIGKILL);
  });
  run_processes(4, [&] { return get(fs_, options()); });
  killer.join();
  ASSERT_EQ(::waitpid(holder, nullptr, 0), holder);
  EXPECT_GE(computes(), 1u);
  ::close(ready[0]);
  ::close(ready[1]);
}

// The lock of a process goes with it, and not with a child that it forked meanwhile.
TEST_F(Locks, AForkedChildDoesNotKeepALock) {
  NodeLocks locks(fs_, folder_ / "locks");
  NodeLocks::Held held;
  ASSERT_EQ(locks.take(digest(), milliseconds(0), &held), NodeLocks::Outcome::kHeld);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  { const NodeLocks::Held given_back = std::move(held); }
  NodeLocks::Held again;
  EXPECT_EQ(locks.take(digest(), milliseconds(0), &again), NodeLocks::Outcome::kHeld);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(Locks, AnErrorOfTheHolderIsNotKeptAndEveryProcessTriesItself) {
  run_processes(8, [&] {
    const auto store = open_store(options(), fs_);
    const auto failed = store->get_or_compute(
        wanted_key, []() -> Result<CacheEntry> { return compile_error("refused"); }, nullptr);
    return !failed.ok() && failed.status().code() == StatusCode::kCompileError ? 0 : 1;
  });
  EXPECT_EQ(get(fs_, options()), 0);
}

// Losing a race on NFS and not seeing the winner's file for a minute.
TEST_F(Locks, AWinnersFileThatStaysInvisibleIsNoError) {
  NetworkFileSystem network;
  network.hides_entries = true;
  run_processes(8, [&] { return get(network, options()); });
  EXPECT_EQ(computes(), 8u);
  network.hides_entries = false;
  EXPECT_EQ(get(network, options()), 0);
  EXPECT_EQ(computes(), 8u);
}

TEST_F(Locks, ALostRenameIsNoError) {
  NetworkFileSystem network;
  network.loses_renames = true;
  run_processes(8, [&] { return get(network, options()); });
  EXPECT_EQ(computes(), 8u);
  EXPECT_TRUE(names_in(folder_ / "cache/entries").empty());
}

TEST_F(Locks, NobodyWaitsWhereNothingIsWritten) {
  NodeLocks locks(fs_, folder_ / "locks");
  NodeLocks::Held held;
  ASSERT_EQ(locks.take(digest(), milliseconds(0), &held), NodeLocks::Outcome::kHeld);
  CacheOptions memory_only = options();
  memory_only.directory = "none";
  EXPECT_EQ(get(fs_, memory_only), 0);

  fs_.fail_write = true;
  const auto store = open_store(options(), fs_);
  const std::string other = CacheKeyBuilder().add("name", "other").hex();
  const auto compute_now = [this] { return compute(); };
  EXPECT_TRUE(store->get_or_compute(other, compute_now, nullptr).ok());
  EXPECT_TRUE(store->get_or_compute(wanted_key, compute_now, nullptr).ok());  // the lock is held
}

}  // namespace
}  // namespace lssar
