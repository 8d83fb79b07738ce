// What a cluster's OSD map says of a pool, as the monitors answer: librados computes the same for
// itself and tells nobody. A group's acting primary is asked for once for each group, as that of
// some object which would be in it ("osd map").
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain::ndp {

// Sends a command to the monitors, as JSON; returns their answer, which is JSON too.
using MonCommand = std::function<Result<std::string>(const std::string& command)>;

struct OsdMap {
  uint64_t epoch = 0;          // or an older one than some of what follows is of
  std::vector<int> primary;    // by group; -1: none acts
  std::set<int> at_addresses;  // OSDs that are up at one of the addresses that were asked for

  uint32_t groups() const { return static_cast<uint32_t>(primary.size()); }
};

Result<uint64_t> osd_epoch(const MonCommand& command);

// kNotFound where there is no such pool, kUnsupported where its objects are not hashed by rjenkins,
// kCorrupt for an answer that is none.
Result<OsdMap> read_osd_map(const MonCommand& command, const std::string& pool,
                            const std::set<std::string>& addresses);

// Of the interfaces of this machine, as text.
std::set<std::string> host_addresses();

}  // namespace ndtrain::ndp
