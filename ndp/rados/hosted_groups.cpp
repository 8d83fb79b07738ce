#include "ndp/rados/hosted_groups.h"

#include <algorithm>
#include <utility>

namespace ndtrain::ndp {

bool HostedGroups::owns(uint32_t group) const {
  return group < map_.groups() && osds_.contains(map_.primary[group]);
}

void HostedGroups::take(OsdMap map, std::set<int> osds, Time now) {
  const bool first = !is_known();
  std::set<uint32_t> before;
  for (uint32_t g = 0; g < map_.groups(); ++g) {
    if (owns(g)) before.insert(g);
  }
  // A pool whose groups were divided has the same objects under other numbers.
  const bool other_groups = !first && map.groups() != map_.groups();
  if (other_groups) lost_.clear();
  map_ = std::move(map);
  osds_ = std::move(osds);
  std::erase_if(lost_, [&](const auto& lost) { return now - lost.second >= kHandedOver; });
  bool gained = other_groups;
  for (uint32_t g = 0; g < map_.groups(); ++g) {
    const bool was = before.contains(g);
    if (owns(g)) {
      gained = gained || (!was && !lost_.contains(g));
      lost_.erase(g);
    } else if (was && !other_groups) {
      lost_.emplace(g, now);
    }
  }
  if (gained && !first) ++gained_;
}

std::vector<uint32_t> HostedGroups::listed(Time now) const {
  std::vector<uint32_t> groups;
  for (uint32_t g = 0; g < map_.groups(); ++g) {
    const auto lost = lost_.find(g);
    if (owns(g) || (lost != lost_.end() && now - lost->second < kHandedOver)) groups.push_back(g);
  }
  return groups;
}

}  // namespace ndtrain::ndp
