#include "framework/core/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

// At exit OpenSSL would take down what threads that still run have of it, and they could not give
// it back: the shared threads outlive its exit handler.
const bool without_exit_handler = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;

void check(int result, const char* what) {
  if (result != 1) throw Error("Sha256: ", what, " failed in OpenSSL");
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::array<uint8_t, 8> little_endian(uint64_t n) {
  std::array<uint8_t, 8> bytes;
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(n >> 8 * i);
  return bytes;
}

}  // namespace

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
  bool finished = false;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (!state_->context) throw Error("Sha256: out of memory");
  check(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr), "init");
}

Sha256::~Sha256() = default;

Sha256& Sha256::update(const void* data, size_t bytes) {
  if (state_->finished) throw Error("Sha256: update after finish");
  if (bytes > 0) check(EVP_DigestUpdate(state_->context.get(), data, bytes), "update");
  return *this;
}

Sha256& Sha256::field(std::string_view s) {
  const auto length = little_endian(s.size());
  return update(length.data(), length.size()).update(s);
}

Sha256& Sha256::field(int64_t n) {
  const auto bytes = little_endian(static_cast<uint64_t>(n));
  return field(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Digest Sha256::finish() {
  if (state_->finished) throw Error("Sha256: finish called twice");
  state_->finished = true;
  Digest digest;
  check(EVP_DigestFinal_ex(state_->context.get(), digest.data(), nullptr), "finish");
  return digest;
}

Digest sha256(std::string_view bytes) { return Sha256().update(bytes).finish(); }

std::string to_hex(std::span<const uint8_t> bytes) {
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (uint8_t b : bytes) {
    hex += "0123456789abcdef"[b >> 4];
    hex += "0123456789abcdef"[b & 15];
  }
  return hex;
}

Digest digest_from_hex(std::string_view hex) {
  Digest digest;
  if (hex.size() != 2 * digest.size()) {
    throw Error("digest: '", hex.substr(0, 80), "' has ", hex.size(), " characters, not 64");
  }
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = hex_digit(hex[2 * i]);
    const int low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) throw Error("digest: '", hex, "' is not hexadecimal");
    digest[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return digest;
}

uint64_t xxh3(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

}  // namespace ndtrain
