#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ndtrain {

// SHA-256: names photos, models, deltas and checkpoints.
using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& update(const void* data, size_t bytes);
  Sha256& update(std::string_view s) { return update(s.data(), s.size()); }
  // Length first, so that fields cannot run into each other.
  Sha256& field(std::string_view s);
  Sha256& field(int64_t n);
  Digest finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest sha256(std::string_view bytes);
std::string to_hex(std::span<const uint8_t> bytes);
// 64 hex digits; throws Error otherwise.
Digest digest_from_hex(std::string_view hex);

// XXH3-64: checksums records and messages.
uint64_t xxh3(const void* data, size_t bytes, uint64_t seed = 0);

}  // namespace ndtrain
