#include "framework/pipeline/planner/published_search.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/pipeline/planner/short_memory.h"

namespace ndtrain {
namespace {

// Of a closed set.
struct SetCosts {
  double seconds = 0, forward_s = 0, activation_bytes = 0, parameter_bytes = 0, output_bytes = 0;
};

std::vector<SetCosts> costs_of(const ComputedNodes& nodes, const ClosedSets& sets, double ratio) {
  std::vector<SetCosts> all(static_cast<size_t>(sets.size()));
  for (int s = 1; s < sets.size(); ++s) {
    SetCosts& c = all[static_cast<size_t>(s)];
    for (const int i : sets.between(0, s)) {
      const NodeProfile& n = nodes.nodes[static_cast<size_t>(i)];
      c.seconds += (n.forward.median_s + n.backward_s()) * ratio;
      c.forward_s += n.forward.median_s * ratio;
      if (!n.in_place()) c.activation_bytes += n.activation_bytes * ratio;
      c.parameter_bytes += n.parameter_bytes + n.frozen_bytes;
    }
    c.seconds = std::max(c.seconds + nodes.copy_s * ratio, nodes.load_s * ratio);
    if (s == sets.last()) continue;
    for (const int i : sets.maximal(s)) {
      c.output_bytes += nodes.nodes[static_cast<size_t>(i)].activation_bytes;
    }
  }
  return all;
}

// Nodes of `set` that `before` has not, on `units` of a level.
struct Cut {
  int before, set, units;
};

class PublishedSearch {
 public:
  // By least memory, plans are those of which the stage that needs most needs least.
  enum class By { kSeconds, kMemory };

  PublishedSearch(const ComputedNodes& nodes, const ClosedSets& sets, const Topology& topology,
                  const PipelinePlanOptions& options, By by)
      : sets_(sets),
        topology_(topology),
        options_(options),
        by_(by),
        costs_(costs_of(nodes, sets, options.minibatch_ratio)),
        end_s_(costs_.back().seconds) {
    for (size_t level = 0; level + 1 < topology.levels.size(); ++level) {
      inner_.emplace_back();
      for (int before = 0; before < sets.last(); ++before) {
        const auto units = static_cast<size_t>(topology.levels[level].units);
        auto& best = inner_.back().emplace_back();
        for (const auto& choices : row(level, before)) best.push_back(choices[units].value);
      }
    }
  }

  // Of the best plan: seconds, or bytes.
  double value() const { return row(top(), 0).back()[units(top())].value; }

  std::vector<PlannedStage> stages(const ComputedNodes& nodes) const {
    std::vector<PlannedStage> all;
    append(top(), {0, sets_.last(), static_cast<int>(units(top()))}, nodes, all);
    return all;
  }

  double one_device_s() const { return end_s_; }
  double data_parallel_s() const {
    const double devices = topology_.devices();
    const Topology::Level& outer = topology_.levels.back();
    const double exchange_s = 2 * costs_.back().parameter_bytes / outer.all_reduce_bytes_per_s *
                              (outer.fully_connected ? 1 : devices - 1);
    return (end_s_ + exchange_s) / devices;
  }

 private:
  // Of a set and a number of units: the last stage of the best plan for them.
  struct Choice {
    double value = kNoPlan;
    int before = -1, stage_units = 0, units_before = 0;
  };
  using Row = std::vector<std::vector<Choice>>;

  struct Fit {
    int versions;
    bool recompute;
    double bytes;
  };

  size_t top() const { return topology_.levels.size() - 1; }
  size_t units(size_t level) const { return static_cast<size_t>(topology_.levels[level].units); }
  const SetCosts& of(int set) const { return costs_[static_cast<size_t>(set)]; }
  int devices_of(size_t level, int units) const {
    return units == 1 ? 1 : units * topology_.unit_devices(level);
  }

  Fit fit(int before, int set, int devices) const {
    const double p = of(set).parameter_bytes - of(before).parameter_bytes;
    const double a = (of(set).activation_bytes - of(before).activation_bytes) / devices;
    const double one_s = end_s_ / topology_.devices();
    const double behind = one_s > 0 ? std::round((end_s_ - of(set).seconds) / one_s) : 0;
    const double versions = behind + 1, whole = versions * (a + p) + p,
                 recomputed = (versions + 1) * p + a;
    const double most = topology_.memory_bytes > 0 ? topology_.memory_bytes : kNoPlan;
    const bool recompute =
        options_.recompute && (by_ == By::kMemory ? recomputed < whole : !(whole <= most));
    return {static_cast<int>(versions), recompute, recompute ? recomputed : whole};
  }

  double stage(size_t level, const Cut& cut) const {
    const Topology::Level& l = topology_.levels[level];
    const int devices = devices_of(level, cut.units);
    const bool split = cut.units > 1;
    const bool looks_at_memory = level == 0 || split;
    const Fit f = fit(cut.before, cut.set, devices);
    if (by_ == By::kMemory) return looks_at_memory ? f.bytes : inner(level, cut);
    if (looks_at_memory && topology_.memory_bytes > 0 && f.bytes > topology_.memory_bytes) {
      return kNoPlan;
    }
    const double links = l.p2p_bytes_per_s * options_.activation_compression *
                         (split && l.fully_connected ? cut.units : 1);
    double out_s = of(cut.set).output_bytes / links;
    if (looks_at_memory && f.recompute) {
      out_s = std::max(out_s, (of(cut.set).forward_s - of(cut.before).forward_s) / devices);
    }
    const double in_s = of(cut.before).output_bytes / links;
    const double computing_s = of(cut.set).seconds - of(cut.before).seconds;
    if (!split) return (level == 0 ? computing_s : inner(level, cut)) + in_s + out_s;
    const double p = of(cut.set).parameter_bytes - of(cut.before).parameter_bytes;
    const double exchange_s =
        2 * p / l.all_reduce_bytes_per_s * (l.fully_connected ? 1 : devices - 1);
    return (computing_s + exchange_s) / devices + in_s + out_s;
  }

  // The optimum of the level below, on all of its units.
  double inner(size_t level, const Cut& cut) const {
    return inner_[level - 1][static_cast<size_t>(cut.before)][static_cast<size_t>(cut.set)];
  }

  // The best plans of what `first` has not, for all larger sets.
  Row row(size_t level, int first) const {
    Row best(static_cast<size_t>(sets_.size()), std::vector<Choice>(units(level) + 1));
    std::vector<int> larger;
    for (int set = first + 1; set < sets_.size(); ++set) {
      if (!sets_.contains(set, first)) continue;
      choose(level, first, set, larger, best);
      larger.push_back(set);
    }
    return best;
  }

  void choose(size_t level, int first, int set, const std::vector<int>& larger, Row& best) const {
    const bool straight = options_.preset == PlanPreset::kPipeline;
    const int all = topology_.levels[level].units, most = straight ? 1 : all;
    std::vector<Choice>& here = best[static_cast<size_t>(set)];
    for (int m = 1; m <= most; ++m) {
      here[static_cast<size_t>(m)] = {stage(level, {first, set, m}), first, m, 0};
    }
    std::vector<std::pair<int, std::vector<double>>> last;  // before it, and by its units
    if (options_.preset != PlanPreset::kDataParallel) {
      for (const int before : larger) {
        if (!sets_.contains(set, before)) continue;
        last.emplace_back(before, std::vector<double>{kNoPlan});
        for (int r = 1; r <= std::min(most, all - 1); ++r) {
          last.back().second.push_back(stage(level, {before, set, r}));
        }
      }
    }
    for (int m = 2; m <= all; ++m) {
      Choice& c = here[static_cast<size_t>(m)];
      const Choice& with_fewer = here[static_cast<size_t>(m) - 1];
      if (options_.fewer && with_fewer.value < c.value) c = with_fewer;
      for (const auto& [before, seconds] : last) {
        for (int r = 1; r < m && r < static_cast<int>(seconds.size()); ++r) {
          const double value =
              std::max(best[static_cast<size_t>(before)][static_cast<size_t>(m - r)].value,
                       seconds[static_cast<size_t>(r)]);
          if (value < c.value) c = {value, before, r, m - r};
        }
      }
    }
  }

  void append(size_t level, const Cut& whole, const ComputedNodes& nodes,
              std::vector<PlannedStage>& all) const {
    const Row best = row(level, whole.before);
    std::vector<Cut> cuts;
    for (Cut c = whole; c.units > 0;) {
      const Choice& choice = best[static_cast<size_t>(c.set)][static_cast<size_t>(c.units)];
      cuts.push_back({choice.before, c.set, choice.stage_units});
      c = {whole.before, choice.before, choice.units_before};
    }
    for (; !cuts.empty(); cuts.pop_back()) {
      const Cut& c = cuts.back();
      if (level > 0 && c.units == 1) {
        append(level - 1, {c.before, c.set, static_cast<int>(units(level - 1))}, nodes, all);
        continue;
      }
      const int devices = devices_of(level, c.units);
      const Fit f = fit(c.before, c.set, devices);
      PlannedStage stage{.replicas = devices, .versions = f.versions, .recompute = f.recompute};
      stage.seconds = stage_s(level, c);
      stage.memory_bytes = f.bytes;
      for (const int n : sets_.between(c.before, c.set)) {
        const auto& ids = nodes.ids[static_cast<size_t>(n)];
        stage.nodes.insert(stage.nodes.end(), ids.begin(), ids.end());
      }
      all.push_back(std::move(stage));
    }
  }

  double stage_s(size_t level, const Cut& cut) const {
    return by_ == By::kSeconds ? stage(level, cut) : 0;
  }

  const ClosedSets& sets_;
  const Topology& topology_;
  const PipelinePlanOptions& options_;
  const By by_;
  const std::vector<SetCosts> costs_;
  const double end_s_;
  // By level, `before` and `set`: the optimum on all units.
  std::vector<std::vector<std::vector<double>>> inner_;
};

}  // namespace

PipelinePlan published_plan(const ComputedNodes& nodes, const ClosedSets& sets,
                            const Topology& topology, const PipelinePlanOptions& options) {
  const PublishedSearch search(nodes, sets, topology, options, PublishedSearch::By::kSeconds);
  PipelinePlan plan{.costs = "ashpipe", .schedule = "async", .sync = "ddp"};
  plan.seconds = search.value();
  if (!std::isfinite(plan.seconds)) {
    const PublishedSearch least(nodes, sets, topology, options, PublishedSearch::By::kMemory);
    if (!std::isfinite(least.value())) throw idle_devices(nodes, topology, 0);
    throw short_memory(least.stages(nodes), topology, options);
  }
  plan.stages = search.stages(nodes);
  plan.one_device_s = search.one_device_s();
  plan.data_parallel_s = search.data_parallel_s();
  plan.states = sets.last();
  return plan;
}

}  // namespace ndtrain
