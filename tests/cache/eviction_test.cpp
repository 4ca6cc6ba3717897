// Size cap, time stamps and the sweep of temporaries, with a clock that the test moves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "cache/open_store.h"
#include "tests/cache/fake_file_system.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

constexpr int64_t kMinuteNs = 60'000'000'000;
constexpr int64_t kHourNs = 60 * kMinuteNs;
constexpr uint64_t kEntryBytes = 100'000;

// Bytes that do not compress.
std::string noise(size_t n) {
  std::mt19937 generator(7);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(generator());
  return bytes;
}

std::string key_of(int i) { return CacheKeyBuilder().add("n", std::to_string(i)).hex(); }

class Eviction : public ::testing::Test {
 protected:
  std::unique_ptr<Store> open(uint64_t max_bytes) {
    return open_store({.directory = directory_, .max_bytes = max_bytes}, fs_);
  }
  void insert(Store& store, int i) { store.insert(key_of(i), {"{}", noise(kEntryBytes)}); }
  bool on_disk(int i) const {
    return std::filesystem::exists(directory_ + "/entries/" + key_of(i));
  }
  // As if entry i had last been used so long ago.
  void age(int i, int64_t ns) {
    ASSERT_TRUE(
        posix_file_system().stamp(directory_ + "/entries/" + key_of(i), fs_.now_ns() - ns).ok());
  }

  TemporaryFolder folder_;
  const std::string directory_ = folder_ / "cache";
  FakeFileSystem fs_;
};

TEST_F(Eviction, TheLeastRecentlyUsedGoUntilSevenEighthsAreLeft) {
  {
    const auto store = open(0);
    for (int i = 0; i < 10; ++i) insert(*store, i);
  }
  for (int i = 0; i < 10; ++i) age(i, (20 + (i * 7) % 10) * kHourNs);  // 0, 3, 6, 9, 2, ... newest
  const auto store = open(8 * kEntryBytes);
  insert(*store, 10);
  // Eleven entries of a little more than 100 KB are there; 700 KB may stay: the five oldest go.
  EXPECT_EQ(store->stats().evictions, 5u);
  for (int gone : {7, 4, 1, 8, 5}) EXPECT_FALSE(on_disk(gone)) << gone;
  for (int kept : {2, 9, 6, 3, 0, 10}) EXPECT_TRUE(on_disk(kept)) << kept;
}

TEST_F(Eviction, NothingGoesBelowTheCapOrWithoutOne) {
  for (uint64_t cap : {uint64_t{0}, 20 * kEntryBytes}) {
    const auto store = open(cap);
    for (int i = 0; i < 10; ++i) insert(*store, i);
    for (int i = 0; i < 10; ++i) age(i, 20 * kHourNs);
    for (int i = 0; i < 10; ++i) insert(*store, i);
    EXPECT_EQ(store->stats().evictions, 0u);
  }
}

TEST_F(Eviction, YoungEntriesStay) {
  const auto store = open(2 * kEntryBytes);
  for (int i = 0; i < 6; ++i) insert(*store, i);
  EXPECT_EQ(store->stats().evictions, 0u);
  fs_.clock_offset_ns = 11 * kMinuteNs;
  insert(*store, 6);
  EXPECT_GE(store->stats().evictions, 5u);
}

TEST_F(Eviction, AnEvictedEntryIsAMissAndItsHolderKeepsItsBytes) {
  const auto store = open(kEntryBytes / 2);
  insert(*store, 0);
  const auto held = store->find(key_of(0));
  fs_.clock_offset_ns = kHourNs;
  insert(*store, 1);
  EXPECT_FALSE(on_disk(0));
  EXPECT_EQ(open(0)->find(key_of(0)), nullptr);
  EXPECT_TRUE(held->payload == noise(kEntryBytes));
}

TEST_F(Eviction, FilesThatAreNotEntriesStay) {
  const auto store = open(kEntryBytes / 2);
  const std::string stranger = directory_ + "/entries/holiday.jpg";
  spill(stranger, noise(kEntryBytes));
  ASSERT_TRUE(posix_file_system().stamp(stranger, 0).ok());
  fs_.clock_offset_ns = kHourNs;
  insert(*store, 0);
  insert(*store, 1);
  EXPECT_TRUE(std::filesystem::exists(stranger));
}

TEST_F(Eviction, AFileReplacedAfterTheScanStays) {
  const auto store = open(0);
  insert(*store, 0);
  const auto files = posix_file_system().list(directory_ + "/entries");
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 1u);
  insert(*store, 0);  // another process writes the same key
  const std::string path = directory_ + "/entries/" + key_of(0);
  EXPECT_FALSE(posix_file_system().remove(path, files->front().state).ok());
  EXPECT_TRUE(on_disk(0));
}

TEST_F(Eviction, CountsAllocatedBlocksNotLengths) {
  const auto store = open(0);
  store->insert(key_of(0), {"{}", "tiny"});
  const auto files = posix_file_system().list(directory_ + "/entries");
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 1u);
  EXPECT_GE(files->front().occupied_bytes, files->front().state.size_bytes);
}

TEST_F(Eviction, AHitRenewsAStampOlderThanAnHourOnly) {
  insert(*open(0), 0);
  EXPECT_NE(open(0)->find(key_of(0)), nullptr);
  fs_.clock_offset_ns = 59 * kMinuteNs;
  EXPECT_NE(open(0)->find(key_of(0)), nullptr);
  EXPECT_EQ(fs_.stamps, 0);
  fs_.clock_offset_ns = 61 * kMinuteNs;
  EXPECT_NE(open(0)->find(key_of(0)), nullptr);
  EXPECT_EQ(fs_.stamps, 1);
  EXPECT_NE(open(0)->find(key_of(0)), nullptr);
  EXPECT_EQ(fs_.stamps, 1) << "the stamp is fresh again";
}

TEST_F(Eviction, AUsedEntryOutlivesAnUnusedOne) {
  {
    const auto store = open(0);
    insert(*store, 0);
    insert(*store, 1);
  }
  age(0, 20 * kHourNs);  // older, but used now
  age(1, 10 * kHourNs);
  const auto store = open(2 * kEntryBytes + 50'000);
  EXPECT_NE(store->find(key_of(0)), nullptr);
  insert(*store, 2);
  EXPECT_TRUE(on_disk(0));
  EXPECT_FALSE(on_disk(1));
}

// The clock ran ahead when these entries were written, and was set back since.
TEST_F(Eviction, EntriesStampedInTheFutureGoFirstWhereNobodyUsesThem) {
  {
    const auto store = open(0);
    for (int i = 0; i < 4; ++i) insert(*store, i);
  }
  age(0, -48 * kHourNs);
  age(1, -24 * kHourNs);
  age(2, 20 * kHourNs);
  age(3, -kMinuteNs);  // no more than clocks of machines differ: young
  const auto store = open(4 * kEntryBytes);
  EXPECT_NE(store->find(key_of(1)), nullptr);  // used: its stamp is renewed
  EXPECT_EQ(fs_.stamps, 1);
  insert(*store, 4);
  EXPECT_FALSE(on_disk(0));
  EXPECT_FALSE(on_disk(2));
  for (int kept : {1, 3, 4}) EXPECT_TRUE(on_disk(kept)) << kept;
}

TEST_F(Eviction, ACacheFilledUnderAFutureClockStaysBelowItsCap) {
  const auto store = open(4 * kEntryBytes);
  for (int i = 0; i < 12; ++i) {
    insert(*store, i);
    age(i, -1000 * kHourNs);
  }
  insert(*store, 12);
  EXPECT_LE(names_in(directory_ + "/entries").size(), 5u);
  EXPECT_TRUE(on_disk(12));
}

TEST_F(Eviction, TemporariesStampedInTheFutureAreSwept) {
  const auto store = open(0);
  const std::string future = directory_ + "/tmp/future.lssar";
  spill(future, "x");
  ASSERT_TRUE(posix_file_system().stamp(future, fs_.now_ns() + 48 * kHourNs).ok());
  insert(*store, 0);
  EXPECT_FALSE(std::filesystem::exists(future));
}

TEST_F(Eviction, StaleTemporariesAreSweptAndFreshOnesAndStrangersStay) {
  const auto store = open(0);
  const std::string tmp = directory_ + "/tmp/";
  for (const char* name : {"old.lssar", "fresh.lssar", "notes.txt"}) spill(tmp + name, "x");
  ASSERT_TRUE(posix_file_system().stamp(tmp + "old.lssar", fs_.now_ns() - 2 * kHourNs).ok());
  ASSERT_TRUE(posix_file_system().stamp(tmp + "notes.txt", fs_.now_ns() - 2 * kHourNs).ok());
  insert(*store, 0);
  EXPECT_FALSE(std::filesystem::exists(tmp + "old.lssar"));
  EXPECT_TRUE(std::filesystem::exists(tmp + "fresh.lssar"));
  EXPECT_TRUE(std::filesystem::exists(tmp + "notes.txt"));
}

TEST_F(Eviction, LookupsDoNotScan) {
  const auto store = open(uint64_t{1} << 30);
  EXPECT_EQ(store->find(key_of(0)), nullptr);
  EXPECT_EQ(fs_.lists, 0);
  for (int i = 0; i < 5; ++i) insert(*store, i);
  EXPECT_EQ(fs_.lists, 2) << "one scan of entries/ and tmp/ for five small writes";
}

}  // namespace
}  // namespace lssar
