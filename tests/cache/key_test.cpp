#include <gtest/gtest.h>

#include <set>

#include "cache/sha256.h"
#include "cache/store.h"

namespace lssar {
namespace {

using List = std::vector<std::string>;

TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, HexGoesBothWaysAndRefusesAnythingElse) {
  const std::string hex = to_hex(sha256("abc"));
  Sha256Digest digest;
  ASSERT_TRUE(from_hex(hex, &digest));
  EXPECT_EQ(digest, sha256("abc"));
  EXPECT_FALSE(from_hex(hex.substr(1), &digest));
  EXPECT_FALSE(from_hex(hex + "0", &digest));
  EXPECT_FALSE(from_hex("B" + hex.substr(1), &digest));
  EXPECT_FALSE(from_hex("/" + hex.substr(1), &digest));
  EXPECT_FALSE(from_hex("", &digest));
}

// The worked example of docs/cache_format.md, section 1.
TEST(CacheKey, MatchesTheDocumentedExample) {
  CacheKeyBuilder key;
  key.add("source", "abc").add("options", List{"-a", "-b"});
  const std::string expected(
      "s\x06\0\0\0\0\0\0\0schema\x0b\0\0\0\0\0\0\0lssar-key-1"
      "s\x06\0\0\0\0\0\0\0source\x03\0\0\0\0\0\0\0abc"
      "l\x07\0\0\0\0\0\0\0options\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0-a\x02\0\0\0\0\0\0\0-b",
      104);
  EXPECT_EQ(key.bytes(), expected);
  EXPECT_EQ(key.hex(), "bb0a6ed336902463902fa40b32f80ee9878de397bcf48aa68707153f063fe46e");
}

// Every pair of these sequences of fields could be taken for another one by a careless encoding.
TEST(CacheKey, FieldsDoNotRunIntoEachOther) {
  std::vector<CacheKeyBuilder> keys(16);
  size_t n = 0;
  keys[n++].add("ab", "c");
  keys[n++].add("a", "bc");
  keys[n++].add("", "abc");
  keys[n++].add("abc", "");
  keys[n++].add("a", "b").add("c", "");
  keys[n++].add("a", "").add("b", "c");
  keys[n++].add("c", "").add("a", "b");
  keys[n++].add("ab", List{"c"});
  keys[n++].add("ab", List{"c", ""});
  keys[n++].add("ab", List{"", "c"});
  keys[n++].add("ab", List{});
  keys[n++].add("ab", "");
  keys[n++].add("x", List{"a b"});
  keys[n++].add("x", List{"a", "b"});
  keys[n++].add("x", "a b");
  ASSERT_EQ(n + 1, keys.size());  // the last one has the schema only
  std::set<std::string> distinct;
  for (const CacheKeyBuilder& key : keys) distinct.insert(key.hex());
  EXPECT_EQ(distinct.size(), keys.size());
}

TEST(CacheKey, IsStableAndOfOneForm) {
  CacheKeyBuilder a, b;
  a.add("target", "sm_90a");
  b.add("target", "sm_90a");
  EXPECT_EQ(a.hex(), b.hex());
  EXPECT_EQ(a.hex().size(), 64u);
  EXPECT_EQ(a.hex().find_first_not_of("0123456789abcdef"), std::string::npos);
  b.add("image", "ptx");
  EXPECT_NE(a.hex(), b.hex());
}

TEST(CacheKey, KeepsNulBytes) {
  CacheKeyBuilder a, b;
  a.add("source", std::string_view("a\0b", 3));
  b.add("source", std::string_view("a\0c", 3));
  EXPECT_NE(a.hex(), b.hex());
}

}  // namespace
}  // namespace lssar
