#include "framework/core/rng.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "framework/core/error.h"
#include "framework/core/hash.h"

namespace ndtrain {
namespace {

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
uint64_t wide(uint32_t l, uint32_t h) { return uint64_t{h} << 32 | l; }

}  // namespace

Rng::Rng(uint64_t seed, std::string_view purpose)
    : Rng(seed, xxh3(purpose.data(), purpose.size())) {}

std::array<uint32_t, 4> Rng::block(uint64_t index) const {
  std::array<uint32_t, 4> c = {low(index), high(index), low(stream_), high(stream_)};
  uint32_t k0 = low(seed_);
  uint32_t k1 = high(seed_);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

uint64_t Rng::bits(uint64_t index) const {
  const auto b = block(index);
  return wide(b[0], b[1]);
}

double Rng::uniform(uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

double Rng::normal(uint64_t index) const {
  const auto b = block(index);
  const double u = static_cast<double>((wide(b[0], b[1]) >> 11) + 1) * 0x1p-53;  // (0, 1]: log
  const double v = static_cast<double>(wide(b[2], b[3]) >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

uint64_t Rng::next_below(uint64_t n) {
  if (n == 0) throw Error("Rng: next_below(0)");
  // 2^64 mod n numbers are refused, so that what is left is a whole number of n's.
  const uint64_t refused = (0 - n) % n;
  uint64_t x = next_bits();
  while (x < refused) x = next_bits();
  return x % n;
}

std::vector<int64_t> permutation(int64_t n, Rng rng) {
  if (n < 0) throw Error("permutation: of ", n, " items");
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.next_below(i)]);
  return order;
}

}  // namespace ndtrain
