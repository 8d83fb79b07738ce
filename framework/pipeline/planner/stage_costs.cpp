#include "framework/pipeline/planner/stage_costs.h"

#include <algorithm>
#include <bit>

#include "framework/core/limits.h"
#include "framework/pipeline/planner/stage_exchange.h"

namespace ndtrain {
namespace {

// Of an exchange, pieces of two operations that are under way (exchange.h).
constexpr double kMostExchanged = 8 << 20;

// The simulator's sums may round below the bound.
constexpr double kBelow = 1 - 1e-9;

}  // namespace

StageCosts::StageCosts(const ComputedNodes& nodes, const ClosedSets& sets, const Topology& topology,
                       const OptimizerCosts& optimizer, double activation_compression)
    : nodes_(nodes),
      sets_(sets),
      topology_(topology),
      optimizer_(optimizer),
      compression_(activation_compression),
      readers_(nodes.nodes.size()),
      after_(static_cast<size_t>(sets.size())) {
  for (size_t n = 0; n < nodes.nodes.size(); ++n) {
    for (const int i : nodes.nodes[n].inputs) {
      readers_[static_cast<size_t>(i)].push_back(static_cast<int>(n));
    }
  }
  for (int before = 0; before < sets.last(); ++before) {
    for (int set = before + 1; set < sets.size(); ++set) {
      if (!sets.contains(set, before)) continue;
      after_[static_cast<size_t>(before)].push_back({set, sums_between(before, set)});
    }
  }
}

const StageCosts::Sums& StageCosts::sums(int before, int set) const {
  return std::ranges::lower_bound(after(before), set, {}, &After::set)->sums;
}

double StageCosts::Sums::workspace_bytes(double share) const {
  return largest
             ? std::max(largest->workspace_of_share(share), most_fixed->workspace_of_share(share))
             : 0;
}

StageCosts::Sums StageCosts::sums_between(int before, int set) const {
  Sums s;
  for (const int number : sets_.between(before, set)) {
    const NodeProfile& n = nodes_.nodes[static_cast<size_t>(number)];
    s.forward_s += n.forward.median_s;
    s.backward_s += n.backward_s();
    s.fixed_forward_s += n.forward.fixed_s;
    s.fixed_backward_s += n.input_gradient.fixed_s + n.weight_gradient.fixed_s;
    s.trained_bytes += n.parameter_bytes;
    s.frozen_bytes += n.frozen_bytes;
    s.saved_bytes += n.saved_bytes;
    if (!s.largest || n.workspace_bytes > s.largest->workspace_bytes) s.largest = &n;
    if (!s.most_fixed || n.fixed_workspace_bytes > s.most_fixed->fixed_workspace_bytes) {
      s.most_fixed = &n;
    }
    const auto outside = [&](int reader) { return !sets_.has(set, reader); };
    if (std::ranges::any_of(readers_[static_cast<size_t>(number)], outside)) {
      s.out_bytes += n.activation_bytes;
    }
  }
  const auto inside = [&](int reader) {
    return sets_.has(set, reader) && !sets_.has(before, reader);
  };
  for (const int number : sets_.between(0, before)) {
    if (std::ranges::any_of(readers_[static_cast<size_t>(number)], inside)) {
      s.in_bytes += nodes_.nodes[static_cast<size_t>(number)].activation_bytes;
    }
  }
  return s;
}

CostProfile StageCosts::exchange_of(const StagePlace& place, const PipelineRule& rule) const {
  const double share = 1.0 / static_cast<double>(place.devices.count * rule.micro_batches);
  std::vector<const NodeProfile*> nodes;
  for (const int number : sets_.between(place.before, place.set)) {
    nodes.push_back(&nodes_.nodes[static_cast<size_t>(number)]);
  }
  return exchange_costs(nodes, topology_, place.devices, optimizer_.seconds_per_byte, share);
}

uint64_t StageCosts::key(const StagePlace& place, const PipelineRule& rule) const {
  uint64_t key = static_cast<uint64_t>(place.before);
  const auto add = [&](uint64_t value, uint64_t below) { key = key * below + value; };
  add(static_cast<uint64_t>(place.set), static_cast<uint64_t>(sets_.size()));
  add(static_cast<uint64_t>(place.devices.count), limits::kRanks + 1);
  add(place.devices.level_in(topology_), topology_.levels.size());
  add(static_cast<uint64_t>(std::countr_zero(static_cast<uint64_t>(rule.micro_batches))), 64);
  return key;
}

bool StageCosts::simulate_exchange(const StagePlace& place, const PipelineRule& rule) {
  if (!exchanges(place, sums(place.before, place.set))) return false;
  const auto [it, fresh] = simulated_s_.emplace(key(place, rule), 0);
  if (!fresh) return false;
  it->second = exchanged_step_s(exchange_of(place, rule));
  return true;
}

double StageCosts::step_s(const StagePlace& place, const Sums& sums,
                          const PipelineRule& rule) const {
  const double replicas = place.devices.count, parts = static_cast<double>(rule.micro_batches);
  const double fixed_s = sums.fixed_forward_s + sums.fixed_backward_s;
  const double update_s = sums.trained_bytes * optimizer_.seconds_per_byte;
  const double part_s = fixed_s + (sums.forward_s + sums.backward_s - fixed_s) / (replicas * parts);
  // Gradients of further parts are added to those before, which is about an update's work.
  const double others_s = (parts - 1) * (part_s + update_s), last_s = part_s + update_s;
  if (!exchanges(place, sums)) return others_s + last_s;
  if (const auto it = simulated_s_.find(key(place, rule)); it != simulated_s_.end()) {
    return others_s + it->second;
  }
  CostProfile costs;
  set_collectives(topology_, place.devices, costs);
  const double link_s = 2 * costs.reduce_scatter.alpha_s +
                        2 * costs.reduce_scatter.beta_s_per_byte * sums.trained_bytes;
  return others_s + std::max(last_s, link_s) * kBelow;
}

double StageCosts::transfer_s(const StagePlace& place, const Sums& sums,
                              const PipelineRule& rule) const {
  const auto over = [&](const DeviceGroup& with_neighbour, double bytes) {
    if (bytes == 0) return 0.0;
    const size_t level = with_neighbour.level_in(topology_);
    const Topology::Level& l = topology_.levels[level];
    const double links = place.devices.units_in(topology_, level);
    return static_cast<double>(rule.micro_batches) * l.p2p_s +
           bytes / (l.p2p_bytes_per_s * links * compression_);
  };
  const DeviceGroup& g = place.devices;
  return over({std::max(g.first - 1, 0), g.count + 1}, sums.in_bytes) +
         over({g.first, g.count + 1}, sums.out_bytes);
}

StageCosts::Stage StageCosts::stage(const StagePlace& place, const Sums& sums,
                                    const PipelineRule& rule, double most_bytes,
                                    bool may_recompute) const {
  const double replicas = place.devices.count, parts = static_cast<double>(rule.micro_batches);
  const double in_flight = rule.in_flight(place.behind) / replicas, one = 1 / (replicas * parts);
  double held = sums.trained_bytes * (rule.versions(place.behind) + 1 +
                                      optimizer_.moment_bytes_per_byte + (parts > 1 ? 1 : 0));
  if (exchanges(place, sums)) held += std::min(sums.trained_bytes, kMostExchanged);
  held +=
      sums.frozen_bytes + sums.workspace_bytes(one) + 2 * (sums.in_bytes + sums.out_bytes) * one;
  const double whole = held + sums.saved_bytes * in_flight,
               recomputed = held + sums.in_bytes * in_flight + sums.saved_bytes * one;
  Stage s{.bytes = whole};
  s.recompute = may_recompute && whole > most_bytes && recomputed < whole;
  if (s.recompute) s.bytes = recomputed;
  s.seconds = step_s(place, sums, rule);
  if (s.recompute) {
    s.seconds += parts * sums.fixed_forward_s + (sums.forward_s - sums.fixed_forward_s) / replicas;
  }
  if (place.before == 0) {
    s.seconds = std::max(s.seconds + nodes_.copy_s / replicas, nodes_.load_s / replicas);
  }
  s.seconds = rule.with_transfers(s.seconds, transfer_s(place, sums, rule));
  return s;
}

}  // namespace ndtrain
