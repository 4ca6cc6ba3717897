// The bytes of a pack, and everything that may be wrong with them.
#include "cache/pack.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "cache/entry.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

Sha256Digest key_of(const std::string& name) { return sha256(name); }

CacheEntry entry_of(const std::string& name) {
  return {R"({"name": ")" + name + "\"}", "payload of " + name};
}

std::string encoded(const std::string& name) {
  const Result<std::string> bytes = encode_entry(key_of(name), entry_of(name));
  EXPECT_TRUE(bytes.ok());
  return bytes.ok() ? *bytes : "";
}

class Pack : public ::testing::Test {
 protected:
  void write(const std::vector<std::string>& names) {
    Result<PackWriter> writer = PackWriter::create(path_);
    ASSERT_TRUE(writer.ok()) << writer.status().to_string();
    for (const std::string& name : names) {
      ASSERT_TRUE(writer->add(key_of(name), encoded(name)).ok());
    }
    const Status status = writer->finish();
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  std::string refusal() const {
    const Result<PackFile> pack = PackFile::open(path_);
    EXPECT_FALSE(pack.ok());
    return pack.ok() ? "" : pack.status().message();
  }
  // What the pack has of `name`; nothing where anything is wrong.
  static std::string payload(const PackFile& pack, const std::string& name) {
    const PackEntry* found = pack.find(key_of(name));
    if (found == nullptr) return "";
    const Result<std::string> bytes = pack.bytes(*found);
    CacheEntry entry;
    DecodeFailure failure;
    if (!bytes.ok() || !decode_entry(*bytes, key_of(name), &entry, &failure)) return "";
    return entry.payload;
  }
  // The pack again, with a checksum of its index that fits: what a bug (or an attacker) could
  // write.
  static std::string with_checksum(std::string bytes) {
    uint64_t index_offset = 0;
    std::memcpy(&index_offset, bytes.data() + bytes.size() - 64, 8);
    const std::string checked =
        bytes.substr(0, 16) + bytes.substr(index_offset, bytes.size() - 32 - index_offset);
    const Sha256Digest sum = sha256(checked);
    std::memcpy(bytes.data() + bytes.size() - 32, sum.data(), sum.size());
    return bytes;
  }
  static void put64(std::string* bytes, size_t offset, uint64_t value) {
    std::memcpy(bytes->data() + offset, &value, 8);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "kernels.pack";
};

TEST_F(Pack, GivesBackEveryEntryAndNoOther) {
  write({"a", "b", "c", "d"});
  const Result<PackFile> pack = PackFile::open(path_);
  ASSERT_TRUE(pack.ok()) << pack.status().to_string();
  EXPECT_EQ(pack->entries().size(), 4u);
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_EQ(payload(*pack, name), entry_of(name).payload);
  }
  EXPECT_EQ(pack->find(key_of("e")), nullptr);
}

TEST_F(Pack, MayBeEmpty) {
  write({});
  const Result<PackFile> pack = PackFile::open(path_);
  ASSERT_TRUE(pack.ok()) << pack.status().to_string();
  EXPECT_TRUE(pack->entries().empty());
}

// docs/cache_format.md, section 6.
TEST_F(Pack, HasTheDocumentedLayout) {
  write({"a", "b"});
  const std::string bytes = slurp(path_);
  const std::string a = encoded("a"), b = encoded("b");
  ASSERT_EQ(bytes.size(), 16 + a.size() + b.size() + 2 * 48 + 64);
  EXPECT_EQ(bytes.substr(0, 16), std::string("LSSARPAK\1\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(16, a.size() + b.size()), a + b);
  const size_t index = 16 + a.size() + b.size();
  const auto number = [&](size_t at) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, 8);
    return value;
  };
  const bool a_first = key_of("a") < key_of("b");
  const Sha256Digest first = key_of(a_first ? "a" : "b");
  EXPECT_EQ(std::memcmp(bytes.data() + index, first.data(), 32), 0);
  EXPECT_EQ(number(index + 32), a_first ? 16 : 16 + a.size());
  EXPECT_EQ(number(index + 40), a_first ? a.size() : b.size());
  EXPECT_EQ(number(index + 96), index);
  EXPECT_EQ(number(index + 104), 2u);
  EXPECT_EQ(number(index + 112), bytes.size());
  EXPECT_EQ(bytes.substr(index + 120, 8), "LSSAREND");
  EXPECT_EQ(bytes, with_checksum(bytes));
}

TEST_F(Pack, IsReadableByOthersAndWritableByItsOwnerOnly) {
  const mode_t before = ::umask(0);
  write({"a"});
  ::umask(before);
  struct stat info = {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

TEST_F(Pack, AnyTruncationIsRefused) {
  write({"a", "b"});
  const std::string whole = slurp(path_);
  for (size_t n = 0; n < whole.size(); ++n) {
    spill(path_, whole.substr(0, n));
    EXPECT_FALSE(PackFile::open(path_).ok()) << n << " bytes";
  }
  spill(path_, whole + '\0');
  EXPECT_NE(refusal().find("does not end as a pack does"), std::string::npos);
}

// A flip in the frame refuses the pack; one in an entry costs that entry alone.
TEST_F(Pack, AnyByteFlippedCostsAtMostWhatItIsPartOf) {
  write({"a", "b"});
  const std::string whole = slurp(path_);
  const size_t a_end = 16 + encoded("a").size(), index = a_end + encoded("b").size();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string bad = whole;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      spill(path_, bad);
      const Result<PackFile> pack = PackFile::open(path_);
      ASSERT_EQ(pack.ok(), i >= 16 && i < index) << "byte " << i;
      if (!pack.ok()) continue;
      EXPECT_EQ(payload(*pack, "a"), i < a_end ? "" : entry_of("a").payload) << "byte " << i;
      EXPECT_EQ(payload(*pack, "b"), i < a_end ? entry_of("b").payload : "") << "byte " << i;
    }
  }
}

TEST_F(Pack, AnIndexThatPointsOutsideIsRefusedUnderARightChecksum) {
  write({"a"});
  const std::string whole = slurp(path_);
  const size_t row = 16 + encoded("a").size();
  for (uint64_t value : {uint64_t{0}, uint64_t{15}, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::string bad = whole;
    put64(&bad, row + 32, value);
    spill(path_, with_checksum(bad));
    EXPECT_NE(refusal().find("entry 0 does not lie within it"), std::string::npos) << value;
  }
  for (uint64_t value : {encoded("a").size() + 1, uint64_t{1} << 31, ~uint64_t{0} - 15}) {
    std::string bad = whole;
    put64(&bad, row + 40, value);
    spill(path_, with_checksum(bad));
    EXPECT_NE(refusal().find("entry 0 does not lie within it"), std::string::npos) << value;
  }
}

TEST_F(Pack, LengthsThatDoNotAddUpAreRefusedBeforeTheyAreUsed) {
  write({"a"});
  const std::string whole = slurp(path_);
  const size_t footer = whole.size() - 64;
  for (size_t field : {0u, 8u}) {
    for (uint64_t value : {uint64_t{0}, uint64_t{2}, uint64_t{1} << 21, uint64_t{1} << 60,
                           uint64_t{0x0555555555555556}, ~uint64_t{0}}) {
      std::string bad = whole;
      put64(&bad, footer + field, value);
      spill(path_, bad);
      EXPECT_NE(refusal().find("lengths do not add up"), std::string::npos) << value;
    }
  }
}

TEST_F(Pack, KeysOutOfOrderAreRefused) {
  write({"a", "b"});
  std::string bad = slurp(path_);
  const size_t index = bad.size() - 64 - 96;
  const std::string first = bad.substr(index, 48);
  bad.replace(index, 48, bad.substr(index + 48, 48)).replace(index + 48, 48, first);
  spill(path_, with_checksum(bad));
  EXPECT_NE(refusal().find("keys 0 and 1 are not in order"), std::string::npos);
  bad.replace(index + 48, 48, bad.substr(index, 48));  // twice the same
  spill(path_, with_checksum(bad));
  EXPECT_NE(refusal().find("keys 0 and 1 are not in order"), std::string::npos);
}

TEST_F(Pack, AnotherVersionIsRefusedByName) {
  write({"a"});
  std::string other = slurp(path_);
  other[8] = 2;
  spill(path_, with_checksum(other));
  EXPECT_NE(refusal().find("format version 2, this library reads 1"), std::string::npos);
}

TEST_F(Pack, OfAnotherUserOrWritableByOthersOrBehindALinkIsRefused) {
  write({"a"});
  ::chmod(path_.c_str(), 0664);
  EXPECT_NE(refusal().find("group and others must not be able to write"), std::string::npos);
  ::chmod(path_.c_str(), 0644);
  const std::string target = folder_ / "target.pack";
  std::filesystem::rename(path_, target);
  std::filesystem::create_symlink(target, path_);
  EXPECT_FALSE(PackFile::open(path_).ok());
  EXPECT_TRUE(PackFile::open(target).ok());
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  ASSERT_EQ(::chown(target.c_str(), 12345, 12345), 0);
  const Result<PackFile> foreign = PackFile::open(target);
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.status().message().find("belongs to user 12345"), std::string::npos);
}

TEST_F(Pack, AKeyTwiceIsRefusedAndTheOldPackStays) {
  write({"a"});
  const std::string before = slurp(path_);
  {
    Result<PackWriter> writer = PackWriter::create(path_);
    ASSERT_TRUE(writer.ok());
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(writer->add(key_of("b"), encoded("b")).ok());
    EXPECT_EQ(writer->finish().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(slurp(path_), before);
  EXPECT_EQ(names_in(folder_.path()).size(), 1u) << "a temporary is left";
}

TEST_F(Pack, ReplacedWhileItIsOpenStaysWhatItWas) {
  write({"a"});
  const Result<PackFile> pack = PackFile::open(path_);
  ASSERT_TRUE(pack.ok());
  write({"b"});
  EXPECT_EQ(payload(*pack, "a"), entry_of("a").payload);
  std::filesystem::remove(path_);
  EXPECT_EQ(payload(*pack, "a"), entry_of("a").payload);
}

// No mapped memory: that would be a signal instead of a miss.
TEST_F(Pack, TruncatedWhileItIsOpenIsAMiss) {
  write({"a", "b"});
  const Result<PackFile> pack = PackFile::open(path_);
  ASSERT_TRUE(pack.ok());
  std::filesystem::resize_file(path_, 16 + encoded("a").size() + 20);
  EXPECT_EQ(payload(*pack, "a"), entry_of("a").payload);
  EXPECT_EQ(payload(*pack, "b"), "");
}

}  // namespace
}  // namespace lssar
