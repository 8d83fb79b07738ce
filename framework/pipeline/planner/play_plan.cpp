#include "framework/pipeline/planner/play_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "framework/core/error.h"
#include "framework/pipeline/planner/stage_exchange.h"

namespace ndtrain {
namespace {

class Played {
 public:
  Played(const PipelinePlan& plan, const ModelProfile& profile, const Topology& topology,
         const PipelinePlanOptions& options)
      : plan_(plan),
        profile_(with_minibatch_ratio(profile, options.minibatch_ratio)),
        topology_(topology),
        compression_(options.activation_compression),
        parts_(static_cast<double>(plan.micro_batches)) {
    if (plan.devices() > topology.devices()) {
      throw Error("plan: it is of ", plan.devices(), " devices, and there are ",
                  topology.devices());
    }
    place_nodes();
    int first = 0;
    for (const PlannedStage& s : plan.stages) {
      devices_.push_back({first, s.replicas});
      first += s.replicas;
    }
  }

  PipeShape shape(int64_t mini_batches) const {
    PipeShape shape{.stages = static_cast<int>(plan_.stages.size()),
                    .micro_batches = plan_.micro_batches,
                    .mini_batches = mini_batches};
    bool frozen = true;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      shape.recompute.push_back(plan_.stages[s].recompute);
      frozen = frozen && std::ranges::all_of(nodes_of(s), [](const NodeProfile* n) {
                 return n->parameter_bytes == 0 && n->backward_s() == 0;
               });
      shape.forward_only.push_back(frozen);
    }
    for (const auto& [ends, bytes] : bytes_between()) {
      shape.edges.push_back({ends.first, ends.second});
    }
    return shape;
  }

  PipelineCosts costs() const {
    PipelineCosts costs{.rows = rows()};
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      costs.stages.push_back(stage(s));
      costs.replicas.push_back(plan_.stages[s].replicas);
    }
    for (const auto& [ends, bytes] : bytes_between()) {
      const DeviceGroup &a = devices_[static_cast<size_t>(ends.first)],
                        &b = devices_[static_cast<size_t>(ends.second)];
      const DeviceGroup both{a.first, b.first + b.count - a.first};
      const Topology::Level& link = topology_.levels[both.level_in(topology_)];
      const double sent = bytes / (parts_ * compression_);
      costs.edges.push_back({.activation_bytes = sent,
                             .gradient_bytes = sent,
                             .latency_s = link.p2p_s,
                             .bytes_per_s = link.p2p_bytes_per_s});
    }
    return costs;
  }

 private:
  void place_nodes() {
    std::map<std::string, size_t> numbers;
    for (size_t n = 0; n < profile_.nodes.size(); ++n) numbers[profile_.nodes[n].id] = n;
    stage_of_.assign(profile_.nodes.size(), kNoStage);
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      for (const std::string& id : plan_.stages[s].nodes) {
        const auto it = numbers.find(id);
        if (it == numbers.end()) throw Error("plan: node '", id, "' is not in the profile");
        stage_of_[it->second] = static_cast<int>(s);
      }
    }
    for (size_t n = 0; n < stage_of_.size(); ++n) {
      if (stage_of_[n] == kNoStage && !profile_.nodes[n].is_input()) {
        throw Error("plan: node '", profile_.nodes[n].id, "' of the profile is in no stage");
      }
    }
  }

  std::vector<const NodeProfile*> nodes_of(size_t stage) const {
    std::vector<const NodeProfile*> nodes;
    for (const int n : execution_order(profile_)) {
      const auto number = static_cast<size_t>(n);
      if (stage_of_[number] == static_cast<int>(stage)) nodes.push_back(&profile_.nodes[number]);
    }
    return nodes;
  }

  // Of a micro-batch. Where nobody said how many, as many as all stages can share alike.
  int64_t rows() const {
    if (profile_.batch > 0) return std::max<int64_t>(profile_.batch / plan_.micro_batches, 1);
    int64_t rows = 1;
    for (const PlannedStage& s : plan_.stages) rows = std::lcm(rows, int64_t{s.replicas});
    return rows;
  }

  PipelineCosts::Stage stage(size_t number) const {
    PipelineCosts::Stage s;
    double trained_bytes = 0;
    const std::vector<const NodeProfile*> nodes = nodes_of(number);
    for (const NodeProfile* n : nodes) {
      s.forward_s += n->forward.of_share(1 / parts_);
      s.input_s += n->input_gradient.of_share(1 / parts_);
      s.weight_s += n->weight_gradient.of_share(1 / parts_);
      trained_bytes += n->parameter_bytes;
    }
    if (plan_.stages[number].recompute) s.recompute_s = s.forward_s;
    s.update_s = trained_bytes * profile_.optimizer_s_per_byte;
    s.weight_s += s.update_s * (parts_ - 1) / parts_;  // added to those of parts before
    if (plan_.stages[number].replicas > 1 && trained_bytes > 0) {
      const double share = 1 / (parts_ * plan_.stages[number].replicas);
      const CostProfile exchange =
          exchange_costs(nodes, topology_, devices_[number], profile_.optimizer_s_per_byte, share);
      s.exchange_s = std::max(0.0, exchanged_step_s(exchange) - exchange.computing_s());
    }
    if (number == 0) {
      s.forward_s += profile_.copy_s() / parts_;
      const double pass_s = s.forward_s + s.recompute_s + s.input_s + s.weight_s;
      s.forward_s += std::max(0.0, profile_.load_s() / parts_ - pass_s);
    }
    return s;
  }

  // What a stage makes that another one reads, in a mini-batch.
  std::map<std::pair<int, int>, double> bytes_between() const {
    std::map<std::pair<int, int>, double> bytes;
    std::set<std::pair<int, int>> sent;  // a node, to a stage
    for (size_t n = 0; n < profile_.nodes.size(); ++n) {
      for (const int from : profile_.nodes[n].inputs) {
        const int a = stage_of_[static_cast<size_t>(from)], b = stage_of_[n];
        if (a == kNoStage || a == b || !sent.insert({from, b}).second) continue;
        bytes[{a, b}] += profile_.nodes[static_cast<size_t>(from)].activation_bytes;
      }
    }
    return bytes;
  }

  static constexpr int kNoStage = -1;  // of an input

  const PipelinePlan& plan_;
  const ModelProfile profile_;
  const Topology& topology_;
  const double compression_, parts_;
  std::vector<int> stage_of_;  // by node
  std::vector<DeviceGroup> devices_;
};

}  // namespace

PlayedPlan play_plan(const PipelinePlan& plan, const ModelProfile& profile,
                     const Topology& topology, const PipelinePlanOptions& options,
                     int64_t mini_batches) {
  const auto schedule = pipeline_schedule(plan.schedule);
  const Played played(plan, profile, topology, options);
  PlayedPlan result{.shape = played.shape(mini_batches), .costs = played.costs(), .prediction = {}};
  result.prediction = simulate_pipeline(*schedule, result.shape, result.costs);
  return result;
}

}  // namespace ndtrain
