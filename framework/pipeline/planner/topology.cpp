#include "framework/pipeline/planner/topology.h"

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/json_entries.h"
#include "framework/core/limits.h"

namespace ndtrain {
namespace {

constexpr int kNetworkFormat = 1;

class NetworkReader {
 public:
  NetworkReader(const std::string& file, std::span<const int> units)
      : entries_("network", file), units_(units) {}

  Topology read(std::string_view text) const {
    const Json top = entries_.whole(text, limits::kProfileFile, kNetworkFormat);
    entries_.check_keys("", top, {"allreduce_bandwidths", "p2p_bandwidths", "fully_connect"},
                        {"allreduce_latencies", "p2p_latencies", "format"});
    Topology topology;
    for (const int n : units_) topology.levels.push_back({.units = n});
    fill(topology, top, "allreduce_bandwidths", &Topology::Level::all_reduce_bytes_per_s, true);
    fill(topology, top, "p2p_bandwidths", &Topology::Level::p2p_bytes_per_s, true);
    fill(topology, top, "allreduce_latencies", &Topology::Level::all_reduce_s, false);
    fill(topology, top, "p2p_latencies", &Topology::Level::p2p_s, false);
    const Json& connected = of_levels(top, "fully_connect");
    for (size_t l = 0; l < units_.size(); ++l) {
      topology.levels[l].fully_connected = entries_.truth(at("fully_connect", l), connected[l]);
    }
    return topology;
  }

 private:
  static std::string at(const std::string& name, size_t level) {
    return name + "/" + std::to_string(level);
  }

  const Json& of_levels(const Json& top, const std::string& name) const {
    const Json& values = top[name];
    entries_.check_list(name, values);
    if (values.size() != units_.size()) {
      entries_.fail("has ", values.size(), " ", name, " for ", units_.size(),
                    " levels of devices: one for each number of units, the inner level first");
    }
    return values;
  }

  void fill(Topology& topology, const Json& top, const std::string& name,
            double Topology::Level::*member, bool above_0) const {
    if (!top.contains(name)) return;
    const Json& values = of_levels(top, name);
    for (size_t l = 0; l < units_.size(); ++l) {
      const double value = entries_.not_negative(at(name, l), values[l]);
      if (above_0 && value == 0) entries_.fail("has ", at(name, l), " = 0: nothing would arrive");
      topology.levels[l].*member = value;
    }
  }

  const JsonEntries entries_;
  const std::span<const int> units_;
};

}  // namespace

int Topology::unit_devices(size_t level) const {
  int devices = 1;
  for (size_t l = 0; l < level; ++l) devices *= levels[l].units;
  return devices;
}

int Topology::devices() const { return unit_devices(levels.size()); }

size_t DeviceGroup::level_in(const Topology& topology) const {
  size_t level = 0;
  while (level + 1 < topology.levels.size() && units_in(topology, level + 1) > 1) ++level;
  return level;
}

int DeviceGroup::units_in(const Topology& topology, size_t level) const {
  const int size = topology.unit_devices(level);
  return (first + count - 1) / size - first / size + 1;
}

void set_collectives(const Topology& topology, const DeviceGroup& group, CostProfile& costs) {
  const Topology::Level& level = topology.levels[group.level_in(topology)];
  const double ranks = group.count;
  // What a rank sends to all the others, for a byte of the operation.
  const double beta = (level.fully_connected ? 1 : ranks - 1) / level.all_reduce_bytes_per_s;
  const double latency_s = level.all_reduce_s;
  costs.ranks = group.count;
  costs.reduce_scatter = costs.all_gather = {latency_s, beta / ranks};
  costs.all_reduce = {2 * latency_s, 2 * beta / ranks};
  costs.reduce = costs.broadcast = {latency_s, beta};
}

Topology parse_network(std::string_view json, const std::string& file, std::span<const int> units) {
  return NetworkReader(file, units).read(json);
}

std::string network_text(const Topology& topology) {
  Json json = {{"format", kNetworkFormat}};
  for (const Topology::Level& l : topology.levels) {
    json["allreduce_bandwidths"].push_back(l.all_reduce_bytes_per_s);
    json["p2p_bandwidths"].push_back(l.p2p_bytes_per_s);
    json["fully_connect"].push_back(l.fully_connected);
    json["allreduce_latencies"].push_back(l.all_reduce_s);
    json["p2p_latencies"].push_back(l.p2p_s);
  }
  return json_text_replacing(json, 1) + "\n";
}

Topology load_network(Fs& fs, const std::string& file, std::span<const int> units) {
  const Result<std::string> text = fs.read(file, limits::kProfileFile);
  if (!text.ok()) throw Error("network ", file, ": ", text.status().message());
  return parse_network(*text, file, units);
}

}  // namespace ndtrain
