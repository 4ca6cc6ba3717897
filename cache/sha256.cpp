// These three functions are deprecated since OpenSSL 3.0 but part of every 3.x. They are 20 KB. The
// one-shot EVP functions would pull the whole provider machinery, about 4 MB, into every static
// link.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "cache/sha256.h"

#include <openssl/sha.h>

namespace lssar {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Sha256Digest sha256(std::string_view bytes) {
  static_assert(sizeof(Sha256Digest) == SHA256_DIGEST_LENGTH);
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  Sha256Digest digest;
  SHA256_Final(digest.data(), &context);
  return digest;
}

std::string to_hex(const Sha256Digest& digest) {
  std::string hex;
  hex.reserve(2 * digest.size());
  for (uint8_t byte : digest) {
    hex += kHexDigits[byte >> 4];
    hex += kHexDigits[byte & 15];
  }
  return hex;
}

bool from_hex(std::string_view hex, Sha256Digest* digest) {
  if (hex.size() != 2 * digest->size()) return false;
  for (size_t i = 0; i < digest->size(); ++i) {
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    (*digest)[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

}  // namespace lssar
