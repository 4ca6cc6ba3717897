// Several processes over one directory: races, kills, and evictions under each other's feet.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "cache/entry.h"
#include "cache/open_store.h"
#include "cache/store.h"
#include "tests/cache/fake_file_system.h"
#include "tests/cache/run_processes.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

std::string key_of(int i) { return CacheKeyBuilder().add("n", std::to_string(i)).hex(); }

// A payload that says which key it belongs to, long enough to be written in more than one page.
std::string payload_of(int i) {
  std::string payload;
  while (payload.size() < 20'000) payload += key_of(i) + key_of(static_cast<int>(payload.size()));
  return payload;
}

Result<CacheEntry> compute(int i) { return CacheEntry{"{}", payload_of(i)}; }

bool get_right(Store& store, int i) {
  const auto entry = store.get_or_compute(
      key_of(i), [i] { return compute(i); }, nullptr);
  return entry.ok() && (*entry)->payload == payload_of(i);
}

class Processes : public ::testing::Test {
 protected:
  // Every file in entries/ is a whole entry of the key it is named by.
  void expect_only_whole_entries() const {
    for (const std::string& name : names_in(directory_ + "/entries")) {
      Sha256Digest key;
      ASSERT_TRUE(from_hex(name, &key)) << name;
      CacheEntry entry;
      DecodeFailure failure;
      EXPECT_TRUE(decode_entry(slurp(directory_ + "/entries/" + name), key, &entry, &failure))
          << failure.reason;
    }
  }

  TemporaryFolder folder_;
  const std::string directory_ = folder_ / "cache";
};

TEST_F(Processes, ThatRaceForOneKeyAllGetItsBytesAndLeaveOneGoodEntry) {
  for (int round = 0; round < 20; ++round) {
    std::filesystem::remove_all(directory_);
    run_processes(2, [&] { return get_right(*Store::open({.directory = directory_}), 1) ? 0 : 1; });
    EXPECT_EQ(names_in(directory_ + "/entries"), std::vector<std::string>{key_of(1)});
    EXPECT_TRUE(names_in(directory_ + "/tmp").empty());
    expect_only_whole_entries();
  }
}

TEST_F(Processes, ThatEvictEachOthersEntriesStillGetTheRightBytes) {
  run_processes(4, [&] {
    FakeFileSystem fs;
    fs.clock_offset_ns = int64_t{24} * 3'600'000'000'000;  // every entry is old at once
    for (int round = 0; round < 3; ++round) {
      const auto store = open_store({.directory = directory_, .max_bytes = 100'000}, fs);
      for (int i = 0; i < 20; ++i) {
        if (!get_right(*store, i)) return 1;
      }
    }
    return 0;
  });
  expect_only_whole_entries();
}

TEST_F(Processes, ClearingTheCacheDisturbsNoOtherProcess) {
  run_processes(3, [&] {
    for (int i = 0; i < 60; ++i) {
      if (i % 20 == 19) {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
      }
      if (!get_right(*Store::open({.directory = directory_}), i % 7)) return 1;
    }
    return 0;
  });
}

// Each child gets a seed of its own: no two of them write in step.
pid_t start_writer(const std::string& directory, unsigned seed) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  std::mt19937 random(seed);
  const auto store = Store::open({.directory = directory});
  for (;;) {
    const int i = static_cast<int>(random() % 5);
    store->insert(key_of(i), *compute(i));
  }
}

TEST_F(Processes, KilledAtTwoHundredMomentsOfAStormOfWritersLeaveNoPartOfAnEntry) {
  constexpr int kWriters = 4, kKills = 200;
  std::mt19937 random(11);
  std::vector<pid_t> writers(kWriters, 0);
  for (pid_t& writer : writers) ASSERT_GT(writer = start_writer(directory_, random()), 0);
  for (int kill = 0; kill < kKills; ++kill) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    pid_t& victim = writers[random() % kWriters];
    ASSERT_EQ(::kill(victim, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(victim, &status, 0), victim);
    EXPECT_TRUE(WIFSIGNALED(status)) << "a writer ended by itself";
    expect_only_whole_entries();
    ASSERT_GT(victim = start_writer(directory_, random()), 0);
  }
  while (names_in(directory_ + "/entries").size() < 5) std::this_thread::yield();
  for (pid_t writer : writers) {
    ASSERT_EQ(::kill(writer, SIGKILL), 0);
    ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
  }
  expect_only_whole_entries();

  // What they left in tmp/ goes when it is old.
  FakeFileSystem fs;
  fs.clock_offset_ns = 2 * int64_t{3'600'000'000'000};
  const auto store = open_store({.directory = directory_}, fs);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(get_right(*store, i)) << i;
  EXPECT_EQ(store->stats().disk_hits, 5u);
  store->insert(key_of(5), *compute(5));
  EXPECT_TRUE(names_in(directory_ + "/tmp").empty());
}

TEST_F(Processes, ThatReadWhileOthersReplaceGetAllOfAnEntryEveryTime) {
  { Store::open({.directory = directory_})->insert(key_of(1), *compute(1)); }
  const pid_t writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    for (;;) Store::open({.directory = directory_})->insert(key_of(1), *compute(1));
  }
  const auto inode = [&] {
    struct stat info = {};
    EXPECT_EQ(::stat((directory_ + "/entries/" + key_of(1)).c_str(), &info), 0);
    return info.st_ino;
  };
  auto last = inode();
  for (int replaced = 0; replaced < 50;) {
    const auto entry = Store::open({.directory = directory_})->find(key_of(1));
    ASSERT_NE(entry, nullptr) << "after " << replaced << " replacements";
    ASSERT_TRUE(entry->payload == payload_of(1)) << "after " << replaced << " replacements";
    const auto now = inode();
    replaced += now != last;
    last = now;
  }
  ASSERT_EQ(::kill(writer, SIGKILL), 0);
  ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
}

}  // namespace
}  // namespace lssar
