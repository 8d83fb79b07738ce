#include "ndp/labels/version_order.h"

#include <algorithm>

namespace ndtrain::ndp {

VersionOrder::VersionOrder(std::vector<VersionInfo> newest_first, std::optional<int64_t> in_force) {
  auto rank = static_cast<int64_t>(newest_first.size());
  for (const VersionInfo& v : newest_first) ranks_[v.id] = v.withdrawn ? 0 : rank--;
  if (in_force) ranks_[*in_force] = static_cast<int64_t>(newest_first.size()) + 1;
}

size_t VersionOrder::above(int64_t version) const {
  const int64_t rank = ranks_.at(version);
  return static_cast<size_t>(
      std::ranges::count_if(ranks_, [&](const auto& other) { return other.second > rank; }));
}

std::optional<size_t> VersionOrder::best(std::span<const StoredLabel> labels) const {
  std::optional<size_t> best;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].version != 0 && withdrawn(labels[i].version)) continue;
    if (!best || rank(labels[i]) >= rank(labels[*best])) best = i;
  }
  return best;
}

}  // namespace ndtrain::ndp
