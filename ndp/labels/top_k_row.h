// The best classes of a photo as bytes, in rows of stores and in label databases alike: for each
// its number as u32 and its score as f32, little-endian, best first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain::ndp {

struct RankedClass {
  uint32_t class_id = 0;
  float score = 0;
};
inline constexpr size_t kRankedClassBytes = 8;

std::string top_k_row(std::span<const RankedClass> best);
// Of whole classes: what is left over at the end says nothing.
std::vector<RankedClass> ranked_classes(std::string_view row);

}  // namespace ndtrain::ndp
