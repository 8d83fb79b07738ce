#include "ndp/labels/top_k_row.h"

#include <bit>

namespace ndtrain::ndp {
namespace {

void put_u32(std::string& to, uint32_t v) {
  for (int i = 0; i < 4; ++i) to += static_cast<char>(v >> 8 * i);
}

uint32_t u32_at(std::string_view from, size_t at) {
  uint32_t v = 0;
  for (size_t i = 0; i < 4; ++i) v |= uint32_t{static_cast<uint8_t>(from[at + i])} << 8 * i;
  return v;
}

}  // namespace

std::string top_k_row(std::span<const RankedClass> best) {
  std::string row;
  row.reserve(kRankedClassBytes * best.size());
  for (const RankedClass& ranked : best) {
    put_u32(row, ranked.class_id);
    put_u32(row, std::bit_cast<uint32_t>(ranked.score));
  }
  return row;
}

std::vector<RankedClass> ranked_classes(std::string_view row) {
  std::vector<RankedClass> best;
  best.reserve(row.size() / kRankedClassBytes);
  for (size_t at = 0; at + kRankedClassBytes <= row.size(); at += kRankedClassBytes) {
    best.push_back({u32_at(row, at), std::bit_cast<float>(u32_at(row, at + 4))});
  }
  return best;
}

}  // namespace ndtrain::ndp
