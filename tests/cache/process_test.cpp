// Several processes over one directory: races, kills, and evictions under each other's feet.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "cache/entry.h"
#include "cache/open_store.h"
#include "cache/store.h"
#include "tests/cache/fake_file_system.h"
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
  // Runs `body` in `count` children that start together; 0 is success.
  static void run(int count, const std::function<int()>& body) {
    int gate[2];
    ASSERT_EQ(::pipe(gate), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < count; ++i) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        ::close(gate[1]);
        char ignored = 0;
        // Returns 0 when the parent closes its end.
        ::_exit(::read(gate[0], &ignored, 1) == 0 ? body() : 100);
      }
      children.push_back(child);
    }
    ::close(gate[0]);
    ::close(gate[1]);
    for (pid_t child : children) {
      int status = -1;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
  }

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
    run(2, [&] { return get_right(*Store::open({.directory = directory_}), 1) ? 0 : 1; });
    EXPECT_EQ(names_in(directory_ + "/entries"), std::vector<std::string>{key_of(1)});
    EXPECT_TRUE(names_in(directory_ + "/tmp").empty());
    expect_only_whole_entries();
  }
}

TEST_F(Processes, ThatEvictEachOthersEntriesStillGetTheRightBytes) {
  run(4, [&] {
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

TEST_F(Processes, ThatClearTheCacheDisturbNobody) {
  run(3, [&] {
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

TEST_F(Processes, ThatAreKilledWhileTheyWriteLeaveNoPartOfAnEntry) {
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto store = Store::open({.directory = directory_});
      for (int i = 0;; ++i) store->insert(key_of(i % 5), *compute(i % 5));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + round));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    expect_only_whole_entries();
  }
  EXPECT_FALSE(names_in(directory_ + "/entries").empty()) << "no child wrote anything";
}

}  // namespace
}  // namespace lssar
