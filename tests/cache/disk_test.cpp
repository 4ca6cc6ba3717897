// What is on disk, and what happens if it or the file system under it is damaged.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "cache/open_store.h"
#include "cache/store.h"
#include "tests/cache/fake_file_system.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

const std::string key_a = CacheKeyBuilder().add("name", "a").hex();
constexpr int64_t kHourNs = 3'600'000'000'000;

Result<CacheEntry> computed() { return CacheEntry{R"({"n": 1})", "the right bytes"}; }

class DiskStore : public ::testing::Test {
 protected:
  std::unique_ptr<Store> open() { return open_store({.directory = directory_}, fs_); }
  std::string entry_path(const std::string& key = key_a) const {
    return directory_ + "/entries/" + key;
  }
  // A new process's view: what get_or_compute says and where it had it from.
  void expect_source(CacheSource expected, const std::string& context = "") {
    const auto store = open();
    CacheSource source = CacheSource::kMemory;
    const auto entry = store->get_or_compute(key_a, computed, &source);
    ASSERT_TRUE(entry.ok()) << context;
    EXPECT_EQ((*entry)->payload, "the right bytes") << context;
    EXPECT_EQ((*entry)->metadata, R"({"n": 1})") << context;
    EXPECT_EQ(source, expected) << context;
  }
  void TearDown() override { set_log_callback({}, LogLevel::kError); }

  TemporaryFolder folder_;
  const std::string directory_ = folder_ / "cache";
  FakeFileSystem fs_;
};

TEST_F(DiskStore, PersistsAcrossStores) {
  expect_source(CacheSource::kComputed);
  expect_source(CacheSource::kDisk);
  const auto store = open();
  ASSERT_NE(store->find(key_a), nullptr);
  EXPECT_EQ(store->stats().disk_hits, 1u);
  EXPECT_EQ(store->stats().misses, 0u);
}

TEST_F(DiskStore, LeavesOneFileAndNoTemporary) {
  expect_source(CacheSource::kComputed);
  EXPECT_EQ(names_in(directory_ + "/entries"), std::vector<std::string>{key_a});
  EXPECT_TRUE(names_in(directory_ + "/tmp").empty());
}

TEST_F(DiskStore, MakesPrivateFoldersAndFiles) {
  expect_source(CacheSource::kComputed);
  const auto mode = [](const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  };
  EXPECT_EQ(mode(directory_), 0700u);
  EXPECT_EQ(mode(directory_ + "/entries"), 0700u);
  EXPECT_EQ(mode(directory_ + "/tmp"), 0700u);
  EXPECT_EQ(mode(entry_path()), 0600u);
}

TEST_F(DiskStore, MakesMissingParents) {
  const auto store = open_store({.directory = folder_ / "x/y/z"}, fs_);
  EXPECT_EQ(store->problem(), "");
  EXPECT_EQ(store->directory(), folder_ / "x/y/z");
}

TEST_F(DiskStore, AnyByteFlippedIsAMissAndTheEntryIsReplaced) {
  expect_source(CacheSource::kComputed);
  const std::string whole = slurp(entry_path());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bad = whole;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    spill(entry_path(), bad);
    expect_source(CacheSource::kComputed, "byte " + std::to_string(i));
    ASSERT_EQ(slurp(entry_path()), whole) << "byte " << i;
  }
}

TEST_F(DiskStore, AnyTruncationIsAMiss) {
  expect_source(CacheSource::kComputed);
  const std::string whole = slurp(entry_path());
  for (size_t n = 0; n < whole.size(); ++n) {
    spill(entry_path(), whole.substr(0, n));
    expect_source(CacheSource::kComputed, std::to_string(n) + " bytes");
  }
}

TEST_F(DiskStore, ADamagedEntryIsUnlinked) {
  expect_source(CacheSource::kComputed);
  spill(entry_path(), "not an entry");
  EXPECT_EQ(open()->find(key_a), nullptr);
  EXPECT_FALSE(std::filesystem::exists(entry_path()));
}

TEST_F(DiskStore, AnotherFormatVersionIsAMissButIsLeftAlone) {
  expect_source(CacheSource::kComputed);
  std::string other = slurp(entry_path());
  other[8] = 2;
  spill(entry_path(), other);
  EXPECT_EQ(open()->find(key_a), nullptr);
  EXPECT_EQ(slurp(entry_path()), other);
}

TEST_F(DiskStore, AnEntryUnderAnotherKeysNameIsAMiss) {
  expect_source(CacheSource::kComputed);
  const std::string other = CacheKeyBuilder().add("name", "b").hex();
  std::filesystem::copy_file(entry_path(), entry_path(other));
  EXPECT_EQ(open()->find(other), nullptr);
}

TEST_F(DiskStore, WritesTemporariesBesideTheFolderThatIsRead) {
  expect_source(CacheSource::kComputed);
  const std::filesystem::path temporary = fs_.last_temporary;
  EXPECT_EQ(temporary.parent_path(), directory_ + "/tmp");
  EXPECT_EQ(temporary.extension(), ".lssar");
}

TEST_F(DiskStore, TemporariesAreNeverReadAsEntries) {
  expect_source(CacheSource::kComputed);
  std::filesystem::rename(entry_path(), directory_ + "/tmp/" + key_a);
  EXPECT_EQ(open()->find(key_a), nullptr);
}

TEST_F(DiskStore, AnEntryThatIsALinkIsAMiss) {
  expect_source(CacheSource::kComputed);
  std::filesystem::rename(entry_path(), folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", entry_path());
  EXPECT_EQ(open()->find(key_a), nullptr);
  expect_source(CacheSource::kComputed);
  EXPECT_FALSE(std::filesystem::is_symlink(entry_path()));  // replaced, not written through
}

TEST_F(DiskStore, AnEntryThatOthersCanWriteIsAMiss) {
  expect_source(CacheSource::kComputed);
  ::chmod(entry_path().c_str(), 0622);
  EXPECT_EQ(open()->find(key_a), nullptr);
}

TEST_F(DiskStore, AnEntryThatIsAFolderOrAPipeIsAMiss) {
  open();
  std::filesystem::create_directory(entry_path());
  expect_source(CacheSource::kComputed);
  std::filesystem::remove(entry_path());
  ASSERT_EQ(::mkfifo(entry_path().c_str(), 0600), 0);
  expect_source(CacheSource::kComputed);
}

TEST_F(DiskStore, ALinkInPlaceOfTheFolderIsRefused) {
  std::filesystem::create_directory(folder_ / "real");
  std::filesystem::create_symlink(folder_ / "real", directory_);
  for (const std::string& path : {directory_, directory_ + "/", directory_ + "//"}) {
    const auto store = open_store({.directory = path}, fs_);
    EXPECT_EQ(store->directory(), "");
    EXPECT_NE(store->problem().find("is a symbolic link"), std::string::npos) << store->problem();
  }
  EXPECT_TRUE(names_in(folder_ / "real").empty());
}

TEST_F(DiskStore, ALinkInPlaceOfEntriesIsRefused) {
  open();
  std::filesystem::remove(directory_ + "/entries");
  std::filesystem::create_directory_symlink(folder_.path(), directory_ + "/entries");
  EXPECT_NE(open()->problem().find("is a symbolic link"), std::string::npos);
}

TEST_F(DiskStore, AFolderThatOthersCanWriteIsRefusedAndNotChanged) {
  open();
  for (mode_t mode : {0770u, 0707u, 0777u}) {
    ::chmod(directory_.c_str(), mode);
    const auto store = open();
    EXPECT_NE(store->problem().find("group and others must not be able to write"),
              std::string::npos);
    EXPECT_TRUE(store->get_or_compute(key_a, computed, nullptr).ok());
    struct stat info = {};
    ::stat(directory_.c_str(), &info);
    EXPECT_EQ(info.st_mode & 0777, mode);
  }
  EXPECT_TRUE(names_in(directory_ + "/entries").empty());
}

TEST_F(DiskStore, AFolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  open();
  ASSERT_EQ(::chown(directory_.c_str(), 12345, 12345), 0);
  const auto store = open();
  EXPECT_NE(store->problem().find("belongs to user 12345"), std::string::npos) << store->problem();
}

TEST_F(DiskStore, AnEntryOfAnotherUserIsAMissAndStays) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  expect_source(CacheSource::kComputed);
  ASSERT_EQ(::chown(entry_path().c_str(), 12345, 12345), 0);
  EXPECT_EQ(open()->find(key_a), nullptr);
  EXPECT_TRUE(std::filesystem::exists(entry_path()));
}

TEST_F(DiskStore, AFileInPlaceOfTheFolderLeavesAStoreInMemory) {
  spill(directory_, "a file");
  for (const std::string& path : {directory_, directory_ + "/below"}) {
    const auto store = open_store({.directory = path}, fs_);
    EXPECT_EQ(store->directory(), "");
    EXPECT_NE(store->problem(), "");
    EXPECT_TRUE(store->get_or_compute(key_a, computed, nullptr).ok());
    EXPECT_NE(store->find(key_a), nullptr);
  }
  EXPECT_EQ(slurp(directory_), "a file");
}

// Permissions do not bind root, so a child becomes another user.
TEST_F(DiskStore, AFolderThatCannotBeWrittenIsReadAndMissesStayInMemory) {
  expect_source(CacheSource::kComputed);
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(entry_path().c_str(), 0644);
  for (const char* name : {"/entries", "/tmp", ""}) {
    ::chmod((directory_ + name).c_str(), 0555);
  }
  const std::string other = CacheKeyBuilder().add("name", "b").hex();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(12345) != 0) ::_exit(10);
    const auto store = open();
    if (store->find(key_a) == nullptr) ::_exit(11);
    if (!store->get_or_compute(other, computed, nullptr).ok()) ::_exit(12);
    if (store->find(other) == nullptr) ::_exit(13);
    ::_exit(store->stats().write_failures == 1 ? 0 : 14);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (const char* name : {"", "/entries", "/tmp"}) ::chmod((directory_ + name).c_str(), 0700);
}

TEST_F(DiskStore, AFailingWriteIsLoggedOnceAndCounted) {
  int warnings = 0;
  set_log_callback(
      [&](LogLevel level, std::string_view message) {
        if (message.find("No space left") != std::string_view::npos) ++warnings;
      },
      LogLevel::kWarning);
  const auto store = open();
  fs_.fail_write = true;
  for (const char* name : {"a", "b", "c"}) {
    const std::string key = CacheKeyBuilder().add("name", name).hex();
    ASSERT_TRUE(store->get_or_compute(key, computed, nullptr).ok());
    EXPECT_NE(store->find(key), nullptr);
  }
  EXPECT_EQ(warnings, 1);
  EXPECT_EQ(store->stats().write_failures, 3u);
  fs_.fail_write = false;  // the disk has space again
  store->insert(key_a, {R"({"n": 1})", "the right bytes"});
  expect_source(CacheSource::kDisk);
}

TEST_F(DiskStore, AFailingReadIsAMiss) {
  expect_source(CacheSource::kComputed);
  fs_.fail_read = true;
  expect_source(CacheSource::kComputed);
}

TEST_F(DiskStore, FailuresOfHouseKeepingAreIgnored) {
  fs_.fail_list = fs_.fail_remove = fs_.fail_stamp = true;
  expect_source(CacheSource::kComputed);
  fs_.clock_offset_ns = 2 * kHourNs;
  expect_source(CacheSource::kDisk);
  EXPECT_EQ(fs_.stamps, 1);
  spill(entry_path(), "damaged, and cannot be removed");
  expect_source(CacheSource::kComputed);
}

TEST_F(DiskStore, AClearedFolderIsMadeAgain) {
  const auto store = open();
  std::filesystem::remove_all(directory_);
  EXPECT_TRUE(store->get_or_compute(key_a, computed, nullptr).ok());
  EXPECT_EQ(store->stats().write_failures, 0u);
  expect_source(CacheSource::kDisk);
}

TEST_F(DiskStore, AMissSaysWhy) {
  std::string log_text;
  set_log_callback([&](LogLevel, std::string_view m) { log_text += std::string(m) + "\n"; },
                   LogLevel::kInfo);
  expect_source(CacheSource::kComputed);
  EXPECT_NE(log_text.find("cache miss " + key_a), std::string::npos) << log_text;
  EXPECT_NE(log_text.find("No such file"), std::string::npos) << log_text;
  spill(entry_path(), std::string(200, 'x'));
  expect_source(CacheSource::kComputed);
  EXPECT_NE(log_text.find("does not begin with LSSARBIN (removed)"), std::string::npos) << log_text;
}

TEST(UniqueFileName, NamesTheProcessAndIsUnique) {
  const std::string a = unique_file_name(), b = unique_file_name();
  EXPECT_NE(a, b);
  EXPECT_EQ(std::count(a.begin(), a.end(), '-'), 3) << a;
  EXPECT_EQ(a.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"),
            std::string::npos)
      << a;
  EXPECT_NE(a.find("-" + std::to_string(::getpid()) + "-"), std::string::npos) << a;
}

}  // namespace
}  // namespace lssar
