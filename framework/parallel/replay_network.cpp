#include "framework/parallel/replay_network.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "framework/comm/sum_tree.h"
#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/limits.h"
#include "framework/parallel/cost_profile_json.h"
#include "framework/parallel/schedules/schedules.h"
#include "framework/parallel/simulate.h"
#include "framework/train/parameter_space.h"

namespace ndtrain {
namespace {

constexpr const char* kLayers = "layers_elements_backward_s_forward_s";
constexpr int kPublishedRanks = 8;
constexpr double kLeastStepSeconds = 0.5, kMostStepSeconds = 3,
                 kMostSent = 50e6;  // bytes per second

constexpr CostProfile::Collective CostProfile::*kScaledCollectives[] = {
    &CostProfile::reduce_scatter, &CostProfile::all_gather, &CostProfile::all_reduce,
    &CostProfile::reduce, &CostProfile::broadcast};

CostProfile published(const Json& network, const std::string& where) {
  try {
    CostProfile costs;
    costs.source = "published";
    costs.ranks = kPublishedRanks;
    for (const Json& layer : network.at(kLayers)) {
      costs.layers.push_back({.elements = layer.at(0).get<int64_t>(),
                              .forward_s = layer.at(2).get<double>(),
                              .backward_s = layer.at(1).get<double>()});
    }
    const double alpha = network.at("alpha_s").get<double>();
    const double beta = network.at("beta_s_per_element").get<double>() / CostProfile::kElementBytes;
    costs.all_reduce = costs.reduce = costs.broadcast = {alpha, beta};
    costs.reduce_scatter = costs.all_gather = {alpha / 2, beta / 2};
    validate(costs);
    return costs;
  } catch (const Json::exception& e) {
    throw Error(where, " is no published network: ", e.what());
  } catch (const Error& e) {
    throw Error(where, " is refused: ", e.what());
  }
}

// So often a rank sends its values in a sum: once for each subtree that is all its own.
int64_t most_subtrees(const std::vector<int>& first_shards) {
  size_t most = 0;
  for (size_t r = 0; r + 1 < first_shards.size(); ++r) {
    most = std::max(most,
                    subtrees_of(first_shards[r], first_shards[r + 1], first_shards.back()).size());
  }
  return static_cast<int64_t>(most);
}

void check_scale(const ReplayScale& scale) {
  for (const double x : {scale.bytes, scale.times}) {
    if (!(x > 0) || !std::isfinite(x)) throw Error("replay: a scale of ", x, ", not above 0");
  }
}

// Where the layers of two profiles begin, from the front, and so the network's elements `at`.
int64_t scaled_place(int64_t at, const std::vector<ParameterRange>& from,
                     const std::vector<ParameterRange>& to) {
  for (size_t l = 0; l < from.size(); ++l) {
    if (at < from[l].begin || from[l].size() == 0) continue;
    const double part =
        static_cast<double>(at - from[l].begin) / static_cast<double>(from[l].size());
    return to[l].begin + std::llround(part * static_cast<double>(to[l].size()));
  }
  return 0;
}

}  // namespace

std::vector<ReplayNetwork> load_replay_networks(Fs& fs, const std::string& file) {
  const Result<std::string> text = fs.read(file, limits::kProfileFile);
  if (!text.ok()) throw Error("networks ", file, ": ", text.status().message());
  const Result<Json> json = read_json(*text, limits::kProfileFile);
  if (!json.ok()) throw Error("networks ", file, ": is ", json.status().message());
  if (!json->is_object() || !json->contains("networks")) {
    return {{std::filesystem::path(file).stem(), parse_cost_profile(*text, file)}};
  }
  const Json& of = json->at("networks");
  if (!of.is_object() || of.empty()) throw Error("networks ", file, ": there are none");
  std::vector<ReplayNetwork> networks;
  for (const auto& [name, network] : of.items()) {
    networks.push_back({name, published(network, "network " + name + " of " + file)});
  }
  std::ranges::sort(networks, {}, &ReplayNetwork::name);
  return networks;
}

int ranks_of(const std::vector<int>& first_shards) {
  return static_cast<int>(first_shards.size()) - 1;
}

double sent_bytes(const std::vector<int>& first_shards, int64_t elements) {
  const double ranks = ranks_of(first_shards);
  const auto halves = static_cast<double>(most_subtrees(first_shards) + 1);
  return halves * (ranks - 1) / ranks * static_cast<double>(elements * CostProfile::kElementBytes);
}

void set_collectives(const ReplayLink& link, const std::vector<int>& first_shards,
                     CostProfile& costs) {
  const double ranks = ranks_of(first_shards);
  const auto times = static_cast<double>(most_subtrees(first_shards));
  // What a rank sends to all the others, for a byte of the operation.
  const double beta = link.bytes_per_s > 0 ? (ranks - 1) / link.bytes_per_s : 0;
  costs.reduce_scatter = {link.latency_s, times * beta / ranks};
  costs.all_gather = {link.latency_s, beta / ranks};
  costs.all_reduce = {2 * link.latency_s, (times + 1) * beta / ranks};
  costs.reduce = {link.latency_s, times * beta};
  costs.broadcast = {link.latency_s, beta};
}

ReplayLink link_of_rho(double rho, double latency_s, const std::vector<int>& first_shards,
                       const CostProfile& network) {
  const double all_reduce_s = rho * network.computing_s(), bytes_s = all_reduce_s - 2 * latency_s;
  if (!(bytes_s > 0)) {
    throw Error("rho ", rho, ": the all-reduce would take ", all_reduce_s, " s, but two latencies ",
                2 * latency_s, " s; a smaller latency goes with it");
  }
  return {latency_s, sent_bytes(first_shards, network.parameter_count()) / bytes_s};
}

ReplayScale ReplayScale::for_this_machine(const CostProfile& network,
                                          const std::vector<int>& first_shards) {
  const double step_s = lower_bound_s(network);
  ReplayScale scale;
  if (step_s > 0) scale.times = std::clamp(step_s, kLeastStepSeconds, kMostStepSeconds) / step_s;
  const double most = kMostSent * std::max(step_s * scale.times, kLeastStepSeconds);
  scale.bytes = std::max(1.0, sent_bytes(first_shards, network.parameter_count()) / most);
  return scale;
}

CostProfile scaled(const CostProfile& network, const ReplayScale& scale) {
  check_scale(scale);
  CostProfile costs = network;
  for (CostProfile::Layer& l : costs.layers) {
    const double slots = static_cast<double>(l.elements) / scale.bytes / ParameterSpace::kAlign;
    l.elements = static_cast<int64_t>(std::ceil(slots)) * ParameterSpace::kAlign;
    l.forward_s *= scale.times;
    l.backward_s *= scale.times;
  }
  for (const auto c : kScaledCollectives) {
    (costs.*c).alpha_s *= scale.times;
    (costs.*c).beta_s_per_byte *= scale.times * scale.bytes;
  }
  costs.optimizer_s_per_element *= scale.times * scale.bytes;
  return costs;
}

ReplayLink scaled(const ReplayLink& link, const ReplayScale& scale) {
  check_scale(scale);
  return {link.latency_s * scale.times, link.bytes_per_s / scale.bytes / scale.times};
}

CommPlan replay_plan(const std::string& schedule, const CostProfile& network,
                     const ReplayScale& scale, const CostProfile& replayed) {
  const CostProfile back = scaled(replayed, {1 / scale.bytes, 1 / scale.times});
  CostProfile costs = network;
  for (const auto c : kScaledCollectives) costs.*c = back.*c;
  costs.optimizer_s_per_element = back.optimizer_s_per_element;
  CommPlan plan = make_comm_plan(schedule, costs);
  const auto from = layer_ranges(network), to = layer_ranges(replayed);
  for (ParameterRange& b : plan.buckets) {
    b = {scaled_place(b.begin, from, to), b.end == network.parameter_count()
                                              ? replayed.parameter_count()
                                              : scaled_place(b.end, from, to)};
  }
  return plan;
}

}  // namespace ndtrain
