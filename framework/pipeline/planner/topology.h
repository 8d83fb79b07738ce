// The devices that a plan is for, and what is between them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/parallel/cost_profile.h"

namespace ndtrain {

struct Topology {
  // `units` of the level below, or devices, that are joined. A unit has one link to all others of
  // its level, or one to each where they are fully connected.
  struct Level {
    int units = 1;
    double all_reduce_bytes_per_s = 0, p2p_bytes_per_s = 0;
    double all_reduce_s = 0, p2p_s = 0;  // latencies
    bool fully_connected = false;
  };
  std::vector<Level> levels;  // the inner one first
  double memory_bytes = 0;    // of a device; 0: not looked at

  int devices() const;
  // Devices of a unit of this level.
  int unit_devices(size_t level) const;
};

// Devices [first, first + count): ranks, in their order.
struct DeviceGroup {
  int first = 0, count = 1;

  // The innermost level of which one unit has them all.
  size_t level_in(const Topology& topology) const;
  // Units of this level that have some of them.
  int units_in(const Topology& topology, size_t level) const;
};

// What collectives cost in the group: half of an all-reduce for each half. A reduction to one rank
// and a broadcast move all bytes over the link of that one.
void set_collectives(const Topology& topology, const DeviceGroup& group, CostProfile& costs);

// Of AshPipe's network.json, with latencies in seconds, which may be left out:
//   {"allreduce_bandwidths": [3e11, 2.5e10], "p2p_bandwidths": [3e11, 2.5e10],
//    "fully_connect": [true, false], "allreduce_latencies": [1e-5, 1e-4], "p2p_latencies": [0, 0]}
// in bytes per second, the inner level first. `units` of each level. Throws Error naming the file
// and the entry: not JSON, an unknown or missing entry, a bandwidth that is not above 0, another
// number of levels.
Topology parse_network(std::string_view json, const std::string& file, std::span<const int> units);
std::string network_text(const Topology& topology);  // what parse_network() reads
Topology load_network(Fs& fs, const std::string& file, std::span<const int> units);

}  // namespace ndtrain
