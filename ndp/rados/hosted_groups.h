// Which placement groups of a pool are a host's: those whose acting primary is one of its OSDs, as
// of the newest map that was taken. What a map takes away the host goes on to list for a while, so
// that jobs which count on it do not miss it before the new primary's host says that it has it. One
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ndp/rados/osd_map.h"

namespace ndtrain::ndp {

class HostedGroups {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr Time kHandedOver = std::chrono::minutes(10);

  // `osds` of the host.
  void take(OsdMap map, std::set<int> osds, Time now);
  const OsdMap& map() const { return map_; }
  bool is_known() const { return !map_.primary.empty(); }

  // Its own, and for kHandedOver those that were; rising.
  std::vector<uint32_t> listed(Time now) const;
  bool owns(uint32_t group) const;
  // How often maps gave it groups that it did not list before; the first map does not count.
  uint64_t gained() const { return gained_; }

 private:
  OsdMap map_;
  std::set<int> osds_;
  std::map<uint32_t, Time> lost_;  // when
  uint64_t gained_ = 0;
};

}  // namespace ndtrain::ndp
