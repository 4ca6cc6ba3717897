// The bytes of a part file, and everything that may be wrong with them.
#include "cache/part_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "cache/entry.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

const std::vector<NamedPart> kParts = {{"manifest.json", {"", "{\"kernels\": []}"}},
                                       {"k.image", {"metadata", std::string(5000, 'x')}},
                                       {"tensor/q", {"", ""}}};

std::string file_bytes() {
  const auto pieces = encode_parts(kParts);
  EXPECT_TRUE(pieces.ok()) << pieces.status().to_string();
  std::string bytes;
  for (const std::string& piece : *pieces) bytes += piece;
  return bytes;
}

// The error of the table or of a part, whichever is wrong.
std::string refusal(const std::string& bytes) {
  const Result<PartFile> file = PartFile::parse(bytes, "case");
  if (!file.ok()) return file.status().to_string();
  for (const NamedPart& part : kParts) {
    const Result<CacheEntry> entry = file->read(part.name, 1 << 20);
    if (!entry.ok()) return entry.status().to_string();
  }
  return "";
}

TEST(PartFile, HasWhatWasWritten) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/case.lssar";
  ASSERT_TRUE(write_part_file(path, kParts).ok());
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const Result<PartFile> file = PartFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_EQ(file->rows().size(), kParts.size());
  for (const NamedPart& part : kParts) {
    const Result<CacheEntry> entry = file->read(part.name, 1 << 20);
    ASSERT_TRUE(entry.ok()) << entry.status().to_string();
    EXPECT_EQ(entry->payload, part.entry.payload);
    EXPECT_EQ(entry->metadata, part.entry.metadata);
  }
  EXPECT_FALSE(file->has("tensor/k"));
  EXPECT_EQ(file->read("tensor/k", 1).status().code(), StatusCode::kInvalidArgument);
}

TEST(PartFile, TruncatedAnywhereIsAnErrorThatSaysSo) {
  const std::string bytes = file_bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string message = refusal(bytes.substr(0, size));
    ASSERT_NE(message.find("'case' is not a usable capture"), message.npos)
        << size << ": " << message;
    ASSERT_NE(message.find("truncated"), message.npos) << size << ": " << message;
  }
  EXPECT_NE(refusal(bytes + "x").find("its parts end at byte"), std::string::npos);
}

TEST(PartFile, AFlippedBitAnywhereIsAnErrorThatNamesWhere) {
  const std::string bytes = file_bytes();
  ASSERT_EQ(refusal(bytes), "");
  const Result<PartFile> file = PartFile::parse(bytes, "case");
  ASSERT_TRUE(file.ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    const std::string message = refusal(damaged);
    ASSERT_NE(message, "") << "byte " << i;
    for (const PartFile::Row& row : file->rows()) {
      if (i < row.offset || i >= row.offset + row.bytes) continue;
      ASSERT_NE(message.find("part '" + row.name + "'"), message.npos) << i << ": " << message;
    }
  }
}

TEST(PartFile, APartIsNotReadBeyondWhatIsAllowed) {
  const Result<PartFile> file = PartFile::parse(file_bytes(), "case");
  ASSERT_TRUE(file.ok());
  const Result<CacheEntry> entry = file->read("k.image", 4999);
  ASSERT_FALSE(entry.ok());
  EXPECT_NE(entry.status().message().find("5000 bytes, allowed are 4999"), std::string::npos)
      << entry.status().message();
}

TEST(PartFile, NamesAreCheckedBeforeAnythingIsWritten) {
  for (const std::string& name : {std::string(), std::string("a b"), std::string(64, 'a')}) {
    EXPECT_EQ(encode_parts({{name, {}}}).status().code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_FALSE(encode_parts({{"a", {}}, {"a", {}}}).ok());
  EXPECT_FALSE(encode_parts({}).ok());
}

// A bug or an attacker could write it: the checksums fit.
TEST(PartFile, APartUnderAnothersNameIsRefused) {
  std::string bytes = file_bytes();
  constexpr size_t kHeader = 16, kRow = 104;
  std::memcpy(bytes.data() + kHeader + kRow, "other\0\0", 8);
  const size_t table = kHeader + kRow * kParts.size();
  const Sha256Digest sum = sha256(std::string_view(bytes).substr(0, table));
  std::memcpy(bytes.data() + table, sum.data(), sum.size());
  const Result<PartFile> file = PartFile::parse(bytes, "case");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const Result<CacheEntry> entry = file->read("other", 1 << 20);
  ASSERT_FALSE(entry.ok());
  EXPECT_NE(entry.status().message().find("entry of another key"), std::string::npos);
}

}  // namespace
}  // namespace lssar
