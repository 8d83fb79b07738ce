#include "framework/pipeline/planner/measured_search.h"

#include <algorithm>
#include <cmath>

#include "framework/core/limits.h"
#include "framework/pipeline/planner/short_memory.h"

namespace ndtrain {
namespace {

enum class By { kSeconds, kMemory };

struct Found {
  double value = kNoPlan;  // seconds of a mini-batch, or bytes of the largest stage
  PipelineRule rule;
  std::vector<StagePlace> stages;
};

// Of one rule.
class RuleSearch {
 public:
  RuleSearch(const StageCosts& costs, const ClosedSets& sets, const Topology& topology,
             const PipelinePlanOptions& options, const PipelineRule& rule, By by, double most_bytes,
             int64_t batch)
      : costs_(costs),
        sets_(sets),
        devices_(topology.devices()),
        most_replicas_(replicas_of(batch, rule)),
        options_(options),
        rule_(rule),
        by_(by),
        most_bytes_(most_bytes) {}

  Found find(int nodes) {
    const int most_stages =
        options_.preset == PlanPreset::kDataParallel ? 1 : std::min(devices_, nodes);
    Found found{.rule = rule_};
    int best_stages = 0;
    for (int stages = 1; stages <= most_stages; ++stages) {
      add_stage();
      const double slowest = best_.back()[place_of(0, 0)].value;
      const double value = by_ == By::kMemory ? slowest : rule_.seconds(slowest, stages);
      if (value < found.value) {
        found.value = value;
        best_stages = stages;
      }
    }
    int set = 0, first = 0;
    for (int behind = best_stages - 1; behind >= 0; --behind) {
      const Choice& c = best_[static_cast<size_t>(behind)][place_of(set, first)];
      found.stages.push_back({set, c.set, {first, c.devices}, behind});
      set = c.set;
      first += c.devices;
    }
    return found;
  }

 private:
  // Of a set and the first device: the first stage of the best plan for what is not in the set.
  struct Choice {
    double value = kNoPlan;
    int set = 0, devices = 0;
  };

  // Each has a row of a micro-batch.
  int replicas_of(int64_t batch, const PipelineRule& rule) const {
    if (batch == 0) return devices_;
    return static_cast<int>(std::min<int64_t>(devices_, batch / rule.micro_batches));
  }

  size_t place_of(int set, int first) const {
    return static_cast<size_t>(set) * static_cast<size_t>(devices_ + 1) +
           static_cast<size_t>(first);
  }

  double value(const StagePlace& place, const StageCosts::Sums& sums) const {
    const StageCosts::Stage s =
        costs_.stage(place, sums, rule_, by_ == By::kMemory ? 0 : most_bytes_, options_.recompute);
    if (by_ == By::kMemory) return s.bytes;
    return s.bytes > most_bytes_ ? kNoPlan : s.seconds;
  }

  // One more stage than the best plans have so far.
  void add_stage() {
    const int behind = static_cast<int>(best_.size());
    best_.emplace_back(place_of(sets_.size(), 0));
    for (int before = 0; before < sets_.last(); ++before) {
      for (const StageCosts::After& after : costs_.after(before)) {
        if ((after.set == sets_.last()) != (behind == 0)) continue;
        // What no device is in front of has nothing in front of it.
        for (int first = before == 0 ? 0 : 1; first < (before == 0 ? 1 : devices_); ++first) {
          choose({before, after.set, {first, 1}, behind}, after.sums);
        }
      }
    }
  }

  void choose(StagePlace place, const StageCosts::Sums& sums) {
    const int left = devices_ - place.devices.first;
    const bool last = place.behind == 0;
    const int free = left - (last ? 0 : 1),
              most = options_.preset == PlanPreset::kPipeline ? 1 : std::min(free, most_replicas_);
    Choice& best = best_.back()[place_of(place.before, place.devices.first)];
    for (int count = last && !options_.fewer ? left : 1; count <= most; ++count) {
      place.devices.count = count;
      double rest = 0;
      if (!last) {
        rest = best_[static_cast<size_t>(place.behind) - 1]
                    [place_of(place.set, place.devices.first + count)]
                        .value;
      }
      if (rest >= best.value) continue;
      const double slowest = std::max(rest, value(place, sums));
      if (slowest < best.value) best = {slowest, place.set, count};
    }
  }

  const StageCosts& costs_;
  const ClosedSets& sets_;
  const int devices_, most_replicas_;
  const PipelinePlanOptions& options_;
  const PipelineRule& rule_;
  const By by_;
  const double most_bytes_;
  std::vector<std::vector<Choice>> best_;  // by stages behind
};

class MeasuredSearch {
 public:
  MeasuredSearch(const ComputedNodes& nodes, const ClosedSets& sets, const Topology& topology,
                 const OptimizerCosts& optimizer, int64_t batch, const PipelinePlanOptions& options)
      : nodes_(nodes),
        sets_(sets),
        topology_(topology),
        batch_(batch),
        options_(options),
        costs_(nodes, sets, topology, optimizer, options.activation_compression) {}

  // The best of one rule, its exchanges simulated.
  Found find(const PipelineRule& rule, By by, double most_bytes) {
    for (;;) {
      Found found = RuleSearch(costs_, sets_, topology_, options_, rule, by, most_bytes, batch_)
                        .find(static_cast<int>(nodes_.nodes.size()));
      if (by == By::kMemory) return found;
      bool simulated = false;
      for (const StagePlace& s : found.stages) simulated |= costs_.simulate_exchange(s, rule);
      if (!simulated) return found;
    }
  }

  PipelinePlan plan(const Found& found, double most_bytes) {
    PipelinePlan plan{.costs = "measured", .schedule = found.rule.schedule, .sync = "auto"};
    // One stage has nothing to be late for, and a flush costs it nothing.
    if (found.stages.size() == 1) plan.schedule = "1f1b";
    plan.micro_batches = found.rule.micro_batches;
    plan.seconds = found.value;
    for (const StagePlace& place : found.stages) {
      const StageCosts::Stage s = costs_.stage(place, costs_.sums(place.before, place.set),
                                               found.rule, most_bytes, options_.recompute);
      PlannedStage stage{.replicas = place.devices.count,
                         .versions = found.rule.versions(place.behind),
                         .recompute = s.recompute,
                         .seconds = s.seconds,
                         .memory_bytes = s.bytes};
      for (const int n : sets_.between(place.before, place.set)) {
        const auto& ids = nodes_.ids[static_cast<size_t>(n)];
        stage.nodes.insert(stage.nodes.end(), ids.begin(), ids.end());
      }
      plan.stages.push_back(std::move(stage));
    }
    plan.one_device_s = one_stage_s(1);
    plan.data_parallel_s = one_stage_s(topology_.devices());
    plan.states = sets_.last();
    return plan;
  }

 private:
  // All nodes on so many devices, whatever memory that takes.
  double one_stage_s(int devices) {
    const PipelineRule rule = pipeline_rules("async", {}).front();
    const StagePlace place{0, sets_.last(), {0, devices}, 0};
    costs_.simulate_exchange(place, rule);
    return costs_.stage(place, costs_.sums(0, sets_.last()), rule, kNoPlan, false).seconds;
  }

  const ComputedNodes& nodes_;
  const ClosedSets& sets_;
  const Topology& topology_;
  const int64_t batch_;
  const PipelinePlanOptions& options_;
  StageCosts costs_;
};

}  // namespace

double weight_share(const ComputedNodes& nodes) {
  double weights_s = 0, all_s = 0;
  for (const NodeProfile& n : nodes.nodes) {
    weights_s += n.weight_gradient.median_s;
    all_s += n.forward.median_s + n.backward_s();
  }
  return all_s > 0 ? weights_s / all_s : 0;
}

PipelinePlan measured_plan(const ComputedNodes& nodes, const ClosedSets& sets,
                           const Topology& topology, const OptimizerCosts& optimizer, int64_t batch,
                           const PipelinePlanOptions& options) {
  const double most_bytes = topology.memory_bytes > 0 ? topology.memory_bytes : kNoPlan;
  const int64_t most = options.most_micro_batches;
  const PipelineRuleInput input{.least_micro_batches = options.least_micro_batches,
                                .most_micro_batches = batch > 0 ? std::min(batch, most) : most,
                                .most_stages = topology.devices(),
                                .weight_share = weight_share(nodes)};
  const auto rules = pipeline_rules(options.schedule, input);
  MeasuredSearch search(nodes, sets, topology, optimizer, batch, options);
  // No rule is faster than async with as many parts: flushes and transfers only add to it.
  double least_s = kNoPlan;
  for (const PipelineRule& rule : pipeline_rules("async", input)) {
    least_s = std::min(least_s, search.find(rule, By::kSeconds, kNoPlan).value);
  }
  if (!std::isfinite(least_s)) throw idle_devices(nodes, topology, batch);
  Found best;
  for (const PipelineRule& rule : rules) {
    Found found = search.find(rule, By::kSeconds, most_bytes);
    if (found.value < best.value) best = std::move(found);
    if (best.value <= least_s) return search.plan(best, most_bytes);
  }
  if (std::isfinite(best.value)) return search.plan(best, most_bytes);
  Found least;
  for (const PipelineRule& rule : rules) {
    Found found = search.find(rule, By::kMemory, 0);
    if (found.value < least.value) least = std::move(found);
  }
  throw short_memory(search.plan(least, 0).stages, topology, options);
}

}  // namespace ndtrain
