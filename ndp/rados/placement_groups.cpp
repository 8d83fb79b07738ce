#include "ndp/rados/placement_groups.h"

#include <array>
#include <bit>

namespace ndtrain::ndp {
namespace {

constexpr uint32_t kGoldenRatio = 0x9e3779b9;
constexpr size_t kBlock = 12;  // bytes mixed together
constexpr char kBehindNamespace = '\037';

using Words = std::array<uint32_t, 3>;

void mix_words(Words& w) {
  auto& [a, b, c] = w;
  const auto step = [](uint32_t& x, uint32_t y, uint32_t z, uint32_t bits) {
    x = (x - y - z) ^ bits;
  };
  step(a, b, c, c >> 13);
  step(b, c, a, a << 8);
  step(c, a, b, b >> 13);
  step(a, b, c, c >> 12);
  step(b, c, a, a << 16);
  step(c, a, b, b >> 5);
  step(a, b, c, c >> 3);
  step(b, c, a, a << 10);
  step(c, a, b, b >> 15);
}

// Adds byte i of a block, little-endian; in the last one the lowest byte of the third word is the
// length's.
void add_byte(Words& w, size_t i, char byte, bool last) {
  const size_t at = i + (last && i >= 8 ? 1 : 0);
  w[at / 4] += static_cast<uint32_t>(static_cast<uint8_t>(byte)) << (at % 4 * 8);
}

uint32_t group_of_hash(uint32_t hash, uint32_t groups) {
  const uint32_t mask = std::bit_ceil(groups) - 1;
  return (hash & mask) < groups ? hash & mask : hash & (mask >> 1);
}

uint32_t reversed_bits(uint32_t value, int bits) {
  uint32_t result = 0;
  for (int i = 0; i < bits; ++i) result |= ((value >> i) & 1) << (bits - 1 - i);
  return result;
}

}  // namespace

uint32_t rjenkins(std::string_view bytes) {
  Words w = {kGoldenRatio, kGoldenRatio, 0};
  std::string_view rest = bytes;
  for (; rest.size() >= kBlock; rest.remove_prefix(kBlock)) {
    for (size_t i = 0; i < kBlock; ++i) add_byte(w, i, rest[i], false);
    mix_words(w);
  }
  w[2] += static_cast<uint32_t>(bytes.size());
  for (size_t i = 0; i < rest.size(); ++i) add_byte(w, i, rest[i], true);
  mix_words(w);
  return w[2];
}

uint32_t placement_group(std::string_view nspace, std::string_view name, uint32_t groups) {
  if (nspace.empty()) return group_of_hash(rjenkins(name), groups);
  std::string key(nspace);
  key += kBehindNamespace;
  key += name;
  return group_of_hash(rjenkins(key), groups);
}

std::vector<std::string> names_of_groups(uint32_t groups) {
  std::vector<std::string> names(groups);
  uint32_t found = 0;
  for (uint64_t i = 0; found < groups; ++i) {
    std::string name = std::to_string(i);
    std::string& of_group = names[placement_group("", name, groups)];
    if (!of_group.empty()) continue;
    of_group = std::move(name);
    ++found;
  }
  return names;
}

uint32_t listing_slices(uint32_t groups) { return std::bit_ceil(groups); }

std::vector<uint32_t> slices_of_group(uint32_t group, uint32_t groups) {
  const uint32_t slices = listing_slices(groups);
  const int bits = std::countr_zero(slices);
  std::vector<uint32_t> of_group;
  for (const uint32_t low_bits : {group, group + slices / 2}) {
    if (low_bits >= slices || group_of_hash(low_bits, groups) != group) continue;
    if (!of_group.empty() && low_bits == group) continue;
    of_group.push_back(reversed_bits(low_bits, bits));
  }
  return of_group;
}

}  // namespace ndtrain::ndp
