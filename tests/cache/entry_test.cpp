#include "cache/entry.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lssar {
namespace {

const Sha256Digest entry_key = sha256("a key");
const CacheEntry small_entry = {R"({"target": "sm_80"})", "a payload too short to compress"};

CacheEntry compressible() { return {"{}", std::string(5000, 'p') + "tail"}; }

std::string encoded(const CacheEntry& entry) {
  Result<std::string> bytes = encode_entry(entry_key, entry);
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  return bytes.ok() ? *bytes : "";
}

// The file again with a checksum that fits: what a bug (or an attacker) could write.
std::string with_checksum(std::string bytes) {
  const Sha256Digest sum = sha256(std::string_view(bytes).substr(0, bytes.size() - 32));
  std::memcpy(bytes.data() + bytes.size() - 32, sum.data(), 32);
  return bytes;
}

void put64(std::string* bytes, size_t offset, uint64_t value) {
  std::memcpy(bytes->data() + offset, &value, 8);
}

DecodeFailure failure_of(const std::string& bytes) {
  CacheEntry entry;
  DecodeFailure failure;
  EXPECT_FALSE(decode_entry(bytes, entry_key, &entry, &failure));
  EXPECT_FALSE(failure.reason.empty());
  return failure;
}

void expect_round_trip(const CacheEntry& entry) {
  CacheEntry back;
  DecodeFailure failure;
  ASSERT_TRUE(decode_entry(encoded(entry), entry_key, &back, &failure)) << failure.reason;
  EXPECT_EQ(back.metadata, entry.metadata);
  EXPECT_TRUE(back.payload == entry.payload);
}

TEST(CacheEntryFormat, RoundTrips) {
  expect_round_trip(small_entry);
  expect_round_trip(compressible());
  expect_round_trip({"", ""});
  expect_round_trip({"{}", std::string("\0\x7f\xff"
                                       "ELF\0",
                                       7)});
}

// docs/cache_format.md, section 3.
TEST(CacheEntryFormat, HasTheDocumentedLayout) {
  const std::string bytes = encoded(small_entry);
  const size_t m = small_entry.metadata.size(), s = small_entry.payload.size();
  ASSERT_EQ(bytes.size(), 104 + m + s);
  EXPECT_EQ(bytes.substr(0, 8), "LSSARBIN");
  EXPECT_EQ(bytes.substr(8, 8), std::string("\1\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(std::memcmp(bytes.data() + 16, entry_key.data(), 32), 0);
  const auto number = [&](size_t at) { return static_cast<uint64_t>(bytes[at]); };
  EXPECT_EQ(number(48), m);
  EXPECT_EQ(number(56), s);
  EXPECT_EQ(number(64), s);
  EXPECT_EQ(bytes.substr(72, m), small_entry.metadata);
  EXPECT_EQ(bytes.substr(72 + m, s), small_entry.payload);
  EXPECT_EQ(bytes, with_checksum(bytes));
}

TEST(CacheEntryFormat, CompressesWhereItPays) {
  EXPECT_EQ(encoded(small_entry)[12], 0);
  const std::string packed = encoded(compressible());
  EXPECT_EQ(packed[12], 1);
  EXPECT_LT(packed.size(), 300u);
}

TEST(CacheEntryFormat, AnyByteFlippedIsRefused) {
  for (const CacheEntry& entry : {small_entry, compressible()}) {
    const std::string whole = encoded(entry);
    for (size_t i = 0; i < whole.size(); ++i) {
      for (int flip : {0x01, 0x80, 0xff}) {
        std::string bad = whole;
        bad[i] = static_cast<char>(bad[i] ^ flip);
        CacheEntry back;
        DecodeFailure failure;
        ASSERT_FALSE(decode_entry(bad, entry_key, &back, &failure)) << "byte " << i;
        // A version may belong to a newer library; every other byte can only be damage.
        EXPECT_EQ(failure.damaged, i < 8 || i >= 12) << "byte " << i << ": " << failure.reason;
      }
    }
  }
}

TEST(CacheEntryFormat, AnyLengthButTheRightOneIsRefused) {
  const std::string whole = encoded(small_entry);
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_TRUE(failure_of(whole.substr(0, n)).damaged) << n << " bytes";
  }
  EXPECT_TRUE(failure_of(whole + '\0').damaged);
  EXPECT_TRUE(failure_of(whole + whole).damaged);
}

// The checksum fits: another program wrote it. Nothing of that size is allocated.
TEST(CacheEntryFormat, APayloadThatClaimsMoreThanIsAllowedIsRefused) {
  std::string bytes = encoded(compressible());
  const uint64_t claimed = kMaxPayloadBytes + 1;
  std::memcpy(bytes.data() + 64, &claimed, sizeof claimed);
  const DecodeFailure failure = failure_of(with_checksum(bytes));
  EXPECT_TRUE(failure.damaged);
  EXPECT_NE(failure.reason.find("67108865 bytes, allowed are 67108864"), std::string::npos)
      << failure.reason;
}

TEST(CacheEntryFormat, WhatCouldNotBeReadIsNotWritten) {
  const std::string large(1000, 'x');
  EXPECT_TRUE(encode_entry(entry_key, {"", large}, 1000).ok());
  EXPECT_EQ(encode_entry(entry_key, {"", large}, 999).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(CacheEntryFormat, AnotherKeysEntryIsRefused) {
  CacheEntry back;
  DecodeFailure failure;
  EXPECT_FALSE(decode_entry(encoded(small_entry), sha256("another"), &back, &failure));
  EXPECT_NE(failure.reason.find("another key"), std::string::npos);
}

TEST(CacheEntryFormat, LengthsThatOverflowAreRefusedBeforeTheyAreUsed) {
  for (uint64_t length : {uint64_t{1} << 32, ~uint64_t{0}, ~uint64_t{0} - 71, uint64_t{1} << 63}) {
    for (size_t offset : {48u, 56u}) {
      std::string bad = encoded(small_entry);
      put64(&bad, offset, length);
      EXPECT_NE(failure_of(with_checksum(bad)).reason.find("lengths"), std::string::npos);
    }
  }
  std::string wraps = encoded(small_entry);  // m + s wraps to the right sum
  put64(&wraps, 48, uint64_t{0} - 16);
  put64(&wraps, 56, small_entry.metadata.size() + small_entry.payload.size() + 16);
  EXPECT_NE(failure_of(with_checksum(wraps)).reason.find("lengths"), std::string::npos);
}

TEST(CacheEntryFormat, AWrongPayloadSizeUnderARightChecksumIsRefused) {
  for (uint64_t size : {uint64_t{0}, uint64_t{5003}, uint64_t{5005}, uint64_t{1} << 40}) {
    std::string bad = encoded(compressible());
    put64(&bad, 64, size);
    EXPECT_TRUE(failure_of(with_checksum(bad)).damaged) << size;
  }
  std::string raw = encoded(small_entry);
  put64(&raw, 64, small_entry.payload.size() - 1);
  EXPECT_TRUE(failure_of(with_checksum(raw)).damaged);
}

TEST(CacheEntryFormat, AnUnknownEncodingUnderARightChecksumIsRefused) {
  std::string bad = encoded(small_entry);
  bad[12] = 7;
  EXPECT_NE(failure_of(with_checksum(bad)).reason.find("encoding 7"), std::string::npos);
  bad[12] = 1;  // says zstd, is not
  EXPECT_NE(failure_of(with_checksum(bad)).reason.find("does not decompress"), std::string::npos);
}

}  // namespace
}  // namespace lssar
