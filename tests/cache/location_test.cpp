#include "cache/location.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "cache/store.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

class CacheLocationTest : public ::testing::Test {
 protected:
  CacheLocationTest() {
    for (const char* name : {"LSSAR_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      saved_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      ::unsetenv(name);
    }
  }
  ~CacheLocationTest() override {
    for (const auto& [name, value] : saved_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  static std::string directory(const std::string& configured = "") {
    return find_cache_location(configured).directory;
  }
  std::map<std::string, std::optional<std::string>> saved_;
};

TEST_F(CacheLocationTest, FollowsTheDocumentedOrder) {
  EXPECT_EQ(directory(), "");
  set("HOME", "/home/somebody");
  EXPECT_EQ(directory(), "/home/somebody/.cache/lssar");
  set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(directory(), "/xdg/lssar");
  set("LSSAR_CACHE_DIR", "/ours");
  EXPECT_EQ(directory(), "/ours");
  EXPECT_EQ(directory("/configured"), "/configured");
}

TEST_F(CacheLocationTest, NoneMeansMemoryOnly) {
  set("HOME", "/home/somebody");
  set("LSSAR_CACHE_DIR", "none");
  EXPECT_EQ(directory(), "");
  EXPECT_EQ(find_cache_location("").source, "LSSAR_CACHE_DIR");
  EXPECT_EQ(Store::open({})->problem(), "");
  EXPECT_EQ(directory("/configured"), "/configured");
  set("LSSAR_CACHE_DIR", "/ours");
  EXPECT_EQ(directory("none"), "");
}

TEST_F(CacheLocationTest, EmptyVariablesCountAsUnset) {
  set("LSSAR_CACHE_DIR", "");
  set("XDG_CACHE_HOME", "");
  set("HOME", "/home/somebody");
  EXPECT_EQ(directory(), "/home/somebody/.cache/lssar");
}

TEST_F(CacheLocationTest, RelativeBaseDirectoriesAreIgnoredAndOursIsMadeAbsolute) {
  set("HOME", "somewhere");
  set("XDG_CACHE_HOME", "cache");
  EXPECT_EQ(directory(), "");
  set("LSSAR_CACHE_DIR", "ours");
  EXPECT_EQ(directory(), (std::filesystem::current_path() / "ours").string());
}

TEST_F(CacheLocationTest, TrailingSlashesAreDropped) {
  EXPECT_EQ(directory("/ours//"), "/ours");
  EXPECT_EQ(directory("/"), "/");
}

TEST_F(CacheLocationTest, WithoutAnyTheStoreWorksInMemoryAndSaysWhy) {
  const auto store = Store::open({});
  EXPECT_EQ(store->directory(), "");
  EXPECT_NE(store->problem().find("LSSAR_CACHE_DIR, XDG_CACHE_HOME and HOME"), std::string::npos);
  store->insert(CacheKeyBuilder().hex(), {"{}", "bytes"});
  EXPECT_NE(store->find(CacheKeyBuilder().hex()), nullptr);
}

TEST_F(CacheLocationTest, AHomeThatCannotBeUsedIsNoError) {
  set("HOME", "/dev/null");
  const auto store = Store::open({});
  EXPECT_EQ(store->directory(), "");
  EXPECT_NE(store->problem().find("/dev/null"), std::string::npos) << store->problem();
  EXPECT_NE(store->problem().find("(from HOME)"), std::string::npos) << store->problem();
}

TEST_F(CacheLocationTest, TheStoreUsesTheEnvironment) {
  const TemporaryFolder folder;
  set("LSSAR_CACHE_DIR", folder / "from-environment");
  EXPECT_EQ(Store::open({})->directory(), folder / "from-environment");
}

}  // namespace
}  // namespace lssar
