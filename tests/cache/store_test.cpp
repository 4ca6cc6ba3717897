// What a store promises its callers, file system aside.
#include "cache/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

std::string key_of(const std::string& name) { return CacheKeyBuilder().add("name", name).hex(); }

std::unique_ptr<Store> open_at(const std::string& directory) {
  return Store::open({.directory = directory});
}

auto make(const std::string& payload, int* calls = nullptr) {
  return [=]() -> Result<CacheEntry> {
    if (calls != nullptr) ++*calls;
    return CacheEntry{"{}", payload};
  };
}

class EveryStore : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Store> open() { return open_at(GetParam() ? folder_ / "cache" : "none"); }
  TemporaryFolder folder_;
};

TEST_P(EveryStore, ComputesOnceAndThenHitsMemory) {
  const auto store = open();
  int calls = 0;
  CacheSource source = CacheSource::kDisk;
  auto entry = store->get_or_compute(key_of("a"), make("bytes", &calls), &source);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ((*entry)->payload, "bytes");
  EXPECT_EQ(source, CacheSource::kComputed);
  entry = store->get_or_compute(key_of("a"), make("other", &calls), &source);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ((*entry)->payload, "bytes");
  EXPECT_EQ(source, CacheSource::kMemory);
  EXPECT_EQ(calls, 1);
  const CacheStats stats = store->stats();
  EXPECT_EQ(stats.memory_hits, 1u);
  EXPECT_EQ(stats.disk_hits, 0u);
  EXPECT_EQ(stats.misses, 1u);
}

TEST_P(EveryStore, FindsWhatWasInserted) {
  const auto store = open();
  EXPECT_EQ(store->find(key_of("a")), nullptr);
  store->insert(key_of("a"), {"{}", "bytes"});
  ASSERT_NE(store->find(key_of("a")), nullptr);
  EXPECT_EQ(store->find(key_of("a"))->payload, "bytes");
  EXPECT_EQ(store->find(key_of("b")), nullptr);
}

TEST_P(EveryStore, InsertReplaces) {
  const auto store = open();
  store->insert(key_of("a"), {"{}", "old"});
  store->insert(key_of("a"), {"{}", "new"});
  EXPECT_EQ(store->find(key_of("a"))->payload, "new");
}

TEST_P(EveryStore, DoesNotKeepAnError) {
  const auto store = open();
  const auto failed = store->get_or_compute(
      key_of("a"), []() -> Result<CacheEntry> { return compile_error("refused"); }, nullptr);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), StatusCode::kCompileError);
  const auto entry = store->get_or_compute(key_of("a"), make("bytes"), nullptr);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ((*entry)->payload, "bytes");
}

TEST_P(EveryStore, AnExceptionOfComputeBecomesAStatus) {
  const auto store = open();
  const auto thrown = store->get_or_compute(
      key_of("a"), []() -> Result<CacheEntry> { throw std::runtime_error("boom"); }, nullptr);
  ASSERT_FALSE(thrown.ok());
  EXPECT_EQ(thrown.status().code(), StatusCode::kInternal);
  EXPECT_NE(thrown.status().message().find("boom"), std::string::npos);
  EXPECT_TRUE(store->get_or_compute(key_of("a"), make("bytes"), nullptr).ok());
}

TEST_P(EveryStore, RefusesWhatIsNotAKey) {
  const auto store = open();
  int calls = 0;
  for (const std::string& key : {std::string("../../etc/passwd"), std::string(), key_of("a") + "0",
                                 std::string(64, 'A'), std::string(64, '/')}) {
    const auto entry = store->get_or_compute(key, make("bytes", &calls), nullptr);
    ASSERT_FALSE(entry.ok());
    EXPECT_EQ(entry.status().code(), StatusCode::kInvalidArgument);
    store->insert(key, {"{}", "bytes"});
    EXPECT_EQ(store->find(key), nullptr);
  }
  EXPECT_EQ(calls, 0);
}

TEST_P(EveryStore, ThreadsThatWantOneKeyComputeItOnce) {
  const auto store = open();
  constexpr int kThreads = 16;
  std::atomic<int> calls{0}, computed{0}, right{0};
  const auto slow = [&]() -> Result<CacheEntry> {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return CacheEntry{"{}", "bytes"};
  };
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      CacheSource source = CacheSource::kDisk;
      const auto entry = store->get_or_compute(key_of("a"), slow, &source);
      if (entry.ok() && (*entry)->payload == "bytes") ++right;
      if (source == CacheSource::kComputed) ++computed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(computed, 1);
  EXPECT_EQ(right, kThreads);
  EXPECT_EQ(store->stats().memory_hits, uint64_t{kThreads - 1});
}

TEST_P(EveryStore, AnErrorIsSharedWithThoseWaiting) {
  const auto store = open();
  constexpr int kThreads = 4;
  std::atomic<int> waiting{0}, errors{0};
  const auto failing = [&]() -> Result<CacheEntry> {
    while (waiting < kThreads) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // others reach the wait
    return compile_error("refused");
  };
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++waiting;
      const auto entry = store->get_or_compute(key_of("a"), failing, nullptr);
      if (entry.status().code() == StatusCode::kCompileError) ++errors;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, kThreads);
}

TEST_P(EveryStore, ManyThreadsAndKeysGiveEachItsOwnBytes) {
  const auto store = open();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 64; ++i) {
        const std::string name = std::to_string((i * 7 + t) % 16);
        const auto entry = store->get_or_compute(key_of(name), make(name), nullptr);
        if (!entry.ok() || (*entry)->payload != name) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store->stats().misses, 16u);
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryStore, ::testing::Bool(),
                         [](const auto& suite) { return suite.param ? "Disk" : "MemoryOnly"; });

TEST(StoreMemory, KeepsNoMoreThanItMayButWhatIsHeldStaysValid) {
  const auto store = Store::open({.directory = "none", .max_memory_bytes = 1000});
  store->insert(key_of("a"), {"", std::string(600, 'a')});
  const auto held = store->find(key_of("a"));
  store->insert(key_of("b"), {"", std::string(600, 'b')});
  EXPECT_EQ(store->find(key_of("a")), nullptr);
  EXPECT_NE(store->find(key_of("b")), nullptr);
  EXPECT_EQ(held->payload, std::string(600, 'a'));
}

TEST(StoreMemory, DropsTheLeastRecentlyUsed) {
  const auto store = Store::open({.directory = "none", .max_memory_bytes = 1000});
  store->insert(key_of("a"), {"", std::string(400, 'a')});
  store->insert(key_of("b"), {"", std::string(400, 'b')});
  EXPECT_NE(store->find(key_of("a")), nullptr);
  store->insert(key_of("c"), {"", std::string(400, 'c')});
  EXPECT_NE(store->find(key_of("a")), nullptr);
  EXPECT_EQ(store->find(key_of("b")), nullptr);
}

TEST(StoreMemory, KeepsOneEntryHoweverLarge) {
  const auto store = Store::open({.directory = "none", .max_memory_bytes = 10});
  store->insert(key_of("a"), {"", std::string(600, 'a')});
  EXPECT_NE(store->find(key_of("a")), nullptr);
}

}  // namespace
}  // namespace lssar
