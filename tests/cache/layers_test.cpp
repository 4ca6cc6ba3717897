// Read-only layers of a store: what is asked in which order, and that nothing in them changes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/log.h"
#include "cache/entry.h"
#include "cache/location.h"
#include "cache/open_store.h"
#include "cache/pack.h"
#include "tests/cache/fake_file_system.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

std::string key_of(const std::string& name) { return CacheKeyBuilder().add("name", name).hex(); }

Sha256Digest digest_of(const std::string& name) {
  Sha256Digest digest = {};
  EXPECT_TRUE(from_hex(key_of(name), &digest));
  return digest;
}

class Layers : public ::testing::Test {
 protected:
  std::unique_ptr<Store> open(const std::vector<std::string>& layers,
                              const std::string& directory = "") {
    return open_store({.directory = directory.empty() ? folder_ / "cache" : directory,
                       .layers = layers,
                       .lock_directory = folder_ / "locks"},
                      fs_);
  }
  // A cache directory with these entries; the payload is the directory's name and the entry's.
  std::string make_directory(const std::string& name, const std::vector<std::string>& entries) {
    const auto store = open({"none"}, folder_ / name);
    for (const std::string& entry : entries) store->insert(key_of(entry), {"{}", name + entry});
    return folder_ / name;
  }
  std::string make_pack(const std::string& name, const std::vector<std::string>& entries) {
    Result<PackWriter> writer = PackWriter::create(folder_ / name);
    EXPECT_TRUE(writer.ok());
    for (const std::string& entry : entries) {
      const auto bytes = encode_entry(digest_of(entry), {"{}", name + entry});
      EXPECT_TRUE(bytes.ok() && writer->add(digest_of(entry), *bytes).ok());
    }
    EXPECT_TRUE(writer->finish().ok());
    return folder_ / name;
  }
  static std::string payload(Store& store, const std::string& entry,
                             CacheSource* source = nullptr) {
    const auto found = store.get_or_compute(
        key_of(entry),
        []() -> Result<CacheEntry> {
          return CacheEntry{"{}", "computed"};
        },
        source);
    return found.ok() ? (*found)->payload : found.status().to_string();
  }
  void TearDown() override { set_log_callback({}, LogLevel::kError); }

  TemporaryFolder folder_;
  FakeFileSystem fs_;
};

TEST_F(Layers, AreAskedInTheirOrderAndBeforeTheDirectory) {
  const std::string pack = make_pack("pack", {"a"});
  const std::string shared = make_directory("shared", {"a", "b"});
  make_directory("cache", {"a", "b", "c"});
  const auto store = open({pack, shared});
  CacheSource source = CacheSource::kMemory;
  EXPECT_EQ(payload(*store, "a", &source), "packa");
  EXPECT_EQ(source, CacheSource::kDisk);
  EXPECT_EQ(payload(*store, "b"), "sharedb");
  EXPECT_EQ(payload(*store, "c"), "cachec");
  EXPECT_EQ(payload(*store, "d", &source), "computed");
  EXPECT_EQ(source, CacheSource::kComputed);
  EXPECT_EQ(store->stats().disk_hits, 3u);
  EXPECT_EQ(store->stats().layer_hits, 2u);
  EXPECT_EQ(store->stats().misses, 1u);
  EXPECT_EQ(payload(*open({shared, pack}), "a"), "shareda");
}

TEST_F(Layers, FindAsksThemToo) {
  const auto store = open({make_pack("pack", {"a"})});
  ASSERT_NE(store->find(key_of("a")), nullptr);
  EXPECT_EQ(store->find(key_of("a"))->payload, "packa");
  EXPECT_EQ(store->find(key_of("b")), nullptr);
}

TEST_F(Layers, WhatTheyHaveIsNotCopiedIntoTheDirectory) {
  const auto store = open({make_pack("pack", {"a"})});
  EXPECT_EQ(payload(*store, "a"), "packa");
  EXPECT_TRUE(names_in(folder_ / "cache/entries").empty());
  payload(*store, "b");
  EXPECT_EQ(names_in(folder_ / "cache/entries"), std::vector<std::string>{key_of("b")});
}

TEST_F(Layers, AreReadWithoutADirectory) {
  const std::string pack = make_pack("pack", {"a"});
  const auto store = open({pack}, "none");
  EXPECT_EQ(payload(*store, "a"), "packa");
  EXPECT_EQ(payload(*store, "b"), "computed");
  EXPECT_EQ(store->stats().write_failures, 0u);
}

TEST_F(Layers, AReadOnlyDirectoryIsNeverChanged) {
  const std::string shared = make_directory("shared", {"a", "b"});
  const std::string damaged = shared + "/entries/" + key_of("b");
  spill(damaged, "not an entry");
  fs_.clock_offset_ns = int64_t{24} * 3'600'000'000'000;
  fs_.stamps = 0;
  const auto store = open({shared, folder_ / "absent"});
  EXPECT_EQ(payload(*store, "a"), "shareda");
  EXPECT_EQ(payload(*store, "b"), "computed");
  EXPECT_EQ(fs_.stamps, 0);
  EXPECT_EQ(slurp(damaged), "not an entry");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "absent"));
}

TEST_F(Layers, ThatCannotBeUsedAreNamedWithAReasonAndTheOthersAreUsed) {
  const std::string pack = make_pack("pack", {"a"});
  const std::string damaged = folder_ / "damaged.pack";
  spill(damaged, slurp(pack).substr(0, 100));
  const std::string open_to_all = make_directory("open", {"a"});
  ::chmod(open_to_all.c_str(), 0777);
  std::filesystem::create_directory(folder_ / "empty");
  ::chmod((folder_ / "empty").c_str(), 0755);
  int warnings = 0;
  set_log_callback([&](LogLevel, std::string_view) { ++warnings; }, LogLevel::kWarning);
  const auto store = open({folder_ / "absent", damaged, open_to_all, folder_ / "empty", pack});
  EXPECT_EQ(warnings, 4);
  const std::vector<CacheLayer> layers = store->layers();
  ASSERT_EQ(layers.size(), 5u);
  EXPECT_NE(layers[0].problem.find("No such file"), std::string::npos) << layers[0].problem;
  EXPECT_NE(layers[1].problem.find("not a usable pack"), std::string::npos);
  EXPECT_NE(layers[2].problem.find("must not be able to write"), std::string::npos);
  EXPECT_NE(layers[3].problem.find("/empty/entries"), std::string::npos) << layers[3].problem;
  EXPECT_EQ(layers[4].problem, "");
  EXPECT_EQ(layers[4].kind, "pack");
  EXPECT_EQ(payload(*store, "a"), "packa");
}

TEST_F(Layers, ALinkAndAFolderOfAnotherUserAreRefused) {
  const std::string shared = make_directory("shared", {"a"});
  std::filesystem::create_directory_symlink(shared, folder_ / "link");
  EXPECT_EQ(payload(*open({folder_ / "link"}), "a"), "computed");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  ASSERT_EQ(::chown((shared + "/entries").c_str(), 12345, 12345), 0);
  const auto store = open({shared});
  EXPECT_NE(store->layers()[0].problem.find("belongs to user 12345"), std::string::npos);
  EXPECT_EQ(payload(*store, "a"), "computed");
}

TEST_F(Layers, ADamagedEntryOfAPackIsAMissOfThatLayerOnly) {
  const std::string pack = make_pack("pack", {"a", "b"});
  std::string bytes = slurp(pack);
  const size_t at = bytes.find("packa");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'X';
  spill(pack, bytes);
  const std::string shared = make_directory("shared", {"a"});
  const auto store = open({pack, shared});
  EXPECT_EQ(payload(*store, "a"), "shareda");
  EXPECT_EQ(payload(*store, "b"), "packb");
}

TEST_F(Layers, AMissNamesWhatWasAskedAndWhy) {
  const std::string pack = make_pack("pack", {});
  const std::string shared = make_directory("shared", {});
  const auto store = open({pack, shared});
  std::string text;
  set_log_callback([&](LogLevel, std::string_view m) { text += std::string(m) + "\n"; },
                   LogLevel::kInfo);
  payload(*store, "a");
  EXPECT_NE(text.find("cache miss " + key_of("a")), std::string::npos) << text;
  EXPECT_NE(text.find("'" + pack + "' has no such entry"), std::string::npos) << text;
  EXPECT_NE(text.find(shared + "/entries/" + key_of("a") + "': No such file"), std::string::npos)
      << text;
  EXPECT_NE(text.find(folder_ / "cache/entries/"), std::string::npos) << text;
}

TEST_F(Layers, ThreadsReadOnePackAtOnce) {
  std::vector<std::string> names;
  for (int i = 0; i < 16; ++i) names.push_back(std::to_string(i));
  const auto store = open_store(
      {.directory = "none", .max_memory_bytes = 1, .layers = {make_pack("pack", names)}}, fs_);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 64; ++i) {
        const std::string& name = names[(i * 7 + t) % names.size()];
        if (payload(*store, name) != "pack" + name) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store->stats().misses, 0u);
}

class LayersEnvironment : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("LSSAR_CACHE_LAYERS"); }
};

TEST_F(LayersEnvironment, NamesLayersWithColonsBetween) {
  ::setenv("LSSAR_CACHE_LAYERS", "/a.pack::/b/:c:", 1);
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(find_cache_layers({}), (std::vector<std::string>{"/a.pack", "/b", here + "/c"}));
  EXPECT_EQ(find_cache_layers({"/given"}), std::vector<std::string>{"/given"});
}

TEST_F(LayersEnvironment, NoneAndEmptyMeanNone) {
  for (const char* value : {"", "none", ":"}) {
    ::setenv("LSSAR_CACHE_LAYERS", value, 1);
    EXPECT_TRUE(find_cache_layers({}).empty()) << value;
  }
  ::setenv("LSSAR_CACHE_LAYERS", "/a.pack", 1);
  EXPECT_TRUE(find_cache_layers({"none"}).empty());
}

}  // namespace
}  // namespace lssar
