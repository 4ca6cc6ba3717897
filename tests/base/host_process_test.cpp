// What a host process has done to itself, closed standard files say or a strange umask, harms no
// file of the library.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "autotune/table/tuning_table.h"
#include "base/file.h"
#include "base/open_descriptor.h"
#include "base/output_file.h"
#include "cache/store.h"
#include "compile/compile_failure.h"
#include "tests/autotune/sample_records.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

constexpr char kNoise[] = "what the host prints\n";

// Whether `body` returned true, in a process of its own.
bool holds_in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string value_of(int i) { return std::to_string(i) + std::string(1000, 'x'); }

// Every way the library writes files, `count` times each.
bool write_all_kinds(const TemporaryFolder& folder, int count) {
  const auto store = Store::open({.directory = folder / "cache"});
  TuningRecord record = sample_record();
  CompileRequest request;
  request.name = "kernel";
  request.source = value_of(0);
  ::setenv("LSSAR_DUMP_DIR", (folder / "dump").c_str(), 1);
  for (int i = 0; i < count; ++i) {
    record.samples = i + 1;
    CacheKeyBuilder key;
    key.add("source", value_of(i));
    const auto made = store->get_or_compute(
        key.hex(),
        [&]() -> Result<CacheEntry> {
          return CacheEntry{"{}", value_of(i)};
        },
        nullptr);
    const bool is_good = append_records(folder / "table", {record}).ok() && made.ok() &&
                         write_output_file(folder / "file", value_of(i)).ok() &&
                         dump_source(request).ok();
    if (!is_good) return false;
  }
  return true;
}

// A daemon: its standard files are closed, and it prints all the same.
bool write_as_daemon(const TemporaryFolder& folder, int count) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) ::close(fd);
  std::atomic<bool> is_over{false};
  std::thread noise([&] {
    while (!is_over) {
      for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        (void)!::write(fd, kNoise, sizeof kNoise - 1);
    }
  });
  const bool is_good = write_all_kinds(folder, count);
  is_over = true;
  noise.join();
  return is_good;
}

TEST(HostProcess, WhatItPrintsIsInNoFileWhereStandardFilesAreClosed) {
  constexpr int kCount = 30;
  const TemporaryFolder folder;
  EXPECT_TRUE(holds_in_child([&] { return write_as_daemon(folder, kCount); }));
  int num_files = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (!item.is_regular_file()) continue;
    ++num_files;
    EXPECT_EQ(slurp(item.path()).find(kNoise), std::string::npos) << item.path();
  }
  EXPECT_GE(num_files, 2 * kCount);
  const Result<TuningTable> table = TuningTable::load(folder / "table");
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_EQ(table->records().size(), static_cast<size_t>(kCount));
  EXPECT_EQ(table->defects().malformed_lines, 0);
}

TEST(HostProcess, NumbersOfClosedStandardFilesStayFree) {
  EXPECT_TRUE(holds_in_child([] {
    ::close(STDIN_FILENO);
    ::close(STDERR_FILENO);
    const FileDescriptor file = open_descriptor("/dev/null", O_RDWR);
    const FileDescriptor none = open_descriptor("/nowhere/at/all", O_RDWR);
    const int error = errno;
    return file.get() > STDERR_FILENO && none.get() < 0 && error == ENOENT &&
           ::fcntl(STDIN_FILENO, F_GETFD) < 0 && ::fcntl(STDERR_FILENO, F_GETFD) < 0 &&
           (::fcntl(file.get(), F_GETFD) & FD_CLOEXEC) != 0;
  }));
}

TEST(HostProcess, ACacheIsItsOwnersWhateverTheUmaskSays) {
  const TemporaryFolder folder;
  EXPECT_TRUE(holds_in_child([&] {
    ::umask(0777);
    const auto store = Store::open({.directory = folder / "cache"});
    CacheKeyBuilder key;
    key.add("source", "a");
    return store
        ->get_or_compute(
            key.hex(),
            []() -> Result<CacheEntry> {
              return CacheEntry{"{}", "bytes"};
            },
            nullptr)
        .ok();
  }));
  int num_files = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder / "cache")) {
    struct stat info = {};
    ASSERT_EQ(::stat(item.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, item.is_directory() ? 0700u : 0600u) << item.path();
    num_files += item.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(num_files, 1);
}

}  // namespace
}  // namespace lssar
