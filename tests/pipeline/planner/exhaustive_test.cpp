// The searches against all plans there are, one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/pipeline/planner/measured_search.h"
#include "framework/pipeline/planner/planner.h"
#include "tests/pipeline/planner/profiles.h"

namespace ndtrain {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-9;  // of the value: sums are in another order

using Mask = uint32_t;  // node i of the profile is bit i; the input is never in it

// All plans by AshPipe's costs, which are stated here once more.
class AllPublishedPlans {
 public:
  AllPublishedPlans(const ModelProfile& profile, const Topology& topology,
                    const PipelinePlanOptions& options)
      : profile_(profile), topology_(topology), options_(options) {
    end_ = (Mask{1} << profile.nodes.size()) - 2;
    for (Mask set = 2; set <= end_; set += 2) {
      if (is_closed(set)) sets_.push_back(set);
    }
  }

  int states() const { return static_cast<int>(sets_.size()); }
  double least_s() const {
    const size_t top = topology_.levels.size() - 1;
    return least(top, 0, end_);
  }

 private:
  bool is_closed(Mask set) const {
    for (size_t n = 1; n < profile_.nodes.size(); ++n) {
      for (const int i : profile_.nodes[n].inputs) {
        if ((set >> n & 1) != 0 && i != 0 && (set >> i & 1) == 0) return false;
      }
    }
    return true;
  }

  template <typename Of>
  double sum(Mask set, const Of& of) const {
    double all = 0;
    for (size_t n = 1; n < profile_.nodes.size(); ++n) {
      if ((set >> n & 1) != 0) all += of(profile_.nodes[n]);
    }
    return all;
  }

  double computing_s(Mask set) const {
    if (set == 0) return 0;
    const double r = options_.minibatch_ratio;
    const double nodes_s =
        sum(set, [](const NodeProfile& n) { return n.forward.median_s + n.backward_s(); });
    const NodeProfile& input = profile_.nodes[0];
    return std::max((nodes_s + input.forward.median_s) * r, input.backward_s() * r);
  }

  double output_bytes(Mask set) const {
    double all = 0;
    for (size_t n = 1; n < profile_.nodes.size() && set != end_; ++n) {
      bool read = false;
      for (size_t r = 1; r < profile_.nodes.size(); ++r) {
        const auto& inputs = profile_.nodes[r].inputs;
        read |= (set >> r & 1) != 0 && std::ranges::count(inputs, static_cast<int>(n)) > 0;
      }
      if ((set >> n & 1) != 0 && !read) all += profile_.nodes[n].activation_bytes;
    }
    return all;
  }

  double stage_s(size_t level, Mask before, Mask set, int m) const {
    const Topology::Level& l = topology_.levels[level];
    int unit = 1;
    for (size_t i = 0; i < level; ++i) unit *= topology_.levels[i].units;
    const int q = m == 1 ? 1 : m * unit;
    const Mask nodes = set & ~before;
    const double p = sum(nodes, [](const NodeProfile& n) { return n.parameter_bytes; });
    const double a = sum(nodes,
                         [](const NodeProfile& n) {
                           return n.description == "Add()" ? 0 : n.activation_bytes;
                         }) *
                     options_.minibatch_ratio;
    double in_s = output_bytes(before) / l.p2p_bytes_per_s / options_.activation_compression;
    double out_s = output_bytes(set) / l.p2p_bytes_per_s / options_.activation_compression;
    if (m > 1 && l.fully_connected) {
      in_s /= m;
      out_s /= m;
    }
    if (topology_.memory_bytes > 0 && (level == 0 || m > 1)) {
      const double v = std::round((computing_s(end_) - computing_s(set)) /
                                  (computing_s(end_) / topology_.devices())) +
                       1;
      if (v * (a / q + p) + p > topology_.memory_bytes) {
        if (!options_.recompute || (v + 1) * p + a / q > topology_.memory_bytes) return kInfinite;
        const double f = sum(nodes, [](const NodeProfile& n) { return n.forward.median_s; });
        out_s = std::max(out_s, f * options_.minibatch_ratio / q);
      }
    }
    const double t = computing_s(set) - computing_s(before);
    if (m == 1) return (level == 0 ? t : least(level - 1, before, set)) + in_s + out_s;
    const double g = l.fully_connected ? 1 : q - 1;
    return (t + 2 * p / l.all_reduce_bytes_per_s * g) / q + in_s + out_s;
  }

  double least(size_t level, Mask before, Mask set) const {
    double best = kInfinite;
    try_chains(level, before, set, topology_.levels[level].units, 0, best);
    return best;
  }

  // Each chain of closed sets, with each way to give out the units.
  void try_chains(size_t level, Mask at, Mask end, int left, double worst, double& best) const {
    if (at == end) {
      if (left == 0 || options_.fewer) best = std::min(best, worst);
      return;
    }
    const bool straight = options_.preset == PlanPreset::kPipeline;
    for (const Mask next : sets_) {
      if ((next & at) != at || next == at || (next & ~end) != 0) continue;
      for (int m = 1; m <= (straight ? std::min(left, 1) : left); ++m) {
        try_chains(level, next, end, left - m, std::max(worst, stage_s(level, at, next, m)), best);
      }
    }
  }

  const ModelProfile& profile_;
  const Topology& topology_;
  const PipelinePlanOptions& options_;
  Mask end_ = 0;
  std::vector<Mask> sets_;
};

PipelinePlanOptions random_options(Rng& rng) {
  PipelinePlanOptions options{.published_costs = true};
  if (rng.next_below(5) == 0) options.preset = PlanPreset::kPipeline;
  options.recompute = rng.next_below(2) == 0;
  options.fewer = rng.next_below(3) == 0;
  if (rng.next_below(3) == 0) options.minibatch_ratio = 0.5 + rng.next_uniform();
  if (rng.next_below(3) == 0) options.activation_compression = 1 + rng.next_uniform();
  return options;
}

double planned_s(const ModelProfile& profile, const Topology& topology,
                 const PipelinePlanOptions& options, int* states) {
  try {
    const PipelinePlan plan = plan_pipeline(profile, topology, options);
    *states = plan.states;
    double slowest = 0;
    size_t nodes = 0;
    for (const PlannedStage& s : plan.stages) {
      slowest = std::max(slowest, s.seconds);
      nodes += s.nodes.size();
      EXPECT_TRUE(topology.memory_bytes == 0 || s.memory_bytes <= topology.memory_bytes);
    }
    EXPECT_EQ(nodes, profile.nodes.size() - 1);
    if (topology.levels.size() == 1 && options.published_costs) {
      EXPECT_DOUBLE_EQ(slowest, plan.seconds);
    }
    EXPECT_TRUE(options.fewer ? plan.devices() <= topology.devices()
                              : plan.devices() == topology.devices());
    return plan.seconds;
  } catch (const Error&) {
    return kInfinite;
  }
}

// How many of the profiles have a plan, and how many none, by both.
struct Compared {
  int fit = 0, do_not = 0;

  void compare(double is, double least_s) {
    if (std::isinf(least_s)) {
      EXPECT_EQ(is, least_s);
      ++do_not;
    } else {
      EXPECT_NEAR(is, least_s, kTolerance * least_s);
      ++fit;
    }
  }
};

TEST(Exhaustive, NoPlanIsBetterByAshPipesCostsOnFiveHundredChainsAndGraphs) {
  const std::vector<std::vector<int>> all_units = {{1}, {2}, {3}, {4}, {2, 2}, {3, 2}, {2, 1, 2}};
  Compared count;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "plans");
    const bool branched = seed % 2 == 1;
    const int nodes = 1 + static_cast<int>(rng.next_below(branched ? 7 : 9));
    const ModelProfile profile = testing::random_profile(rng, nodes, branched);
    Topology topology = testing::random_topology(rng, all_units[rng.next_below(all_units.size())]);
    if (rng.next_below(2) == 0) topology.memory_bytes = rng.next_uniform() * 2e8 * nodes;
    const PipelinePlanOptions options = random_options(rng);
    const AllPublishedPlans all(profile, topology, options);
    const double least_s = all.least_s();
    int states = all.states();
    const double is = planned_s(profile, topology, options, &states);
    EXPECT_EQ(states, all.states());
    count.compare(is, least_s);
  }
  EXPECT_GE(count.fit, 300);
  EXPECT_GE(count.do_not, 20);
}

constexpr int64_t kRows = 4;  // of a mini-batch

// All plans by measured costs: every chain, every way to give out the devices, every rule, every
// exchange simulated.
class AllMeasuredPlans {
 public:
  AllMeasuredPlans(const ModelProfile& profile, const Topology& topology,
                   const PipelinePlanOptions& options)
      : topology_(topology),
        options_(options),
        nodes_(computed_nodes(profile, false)),
        sets_(inputs_of(nodes_), options.most_states),
        costs_(nodes_, sets_, topology,
               {profile.optimizer_s_per_byte, profile.moment_bytes_per_byte},
               options.activation_compression) {}

  double least_s() {
    for (const PipelineRule& rule :
         pipeline_rules(options_.schedule, {.most_micro_batches = kRows,
                                           .most_stages = topology_.devices(),
                                           .weight_share = weight_share(nodes_)})) {
      std::vector<StagePlace> stages;
      try_stages(rule, stages);
    }
    return least_s_;
  }

 private:
  static std::vector<std::vector<int>> inputs_of(const ComputedNodes& nodes) {
    std::vector<std::vector<int>> inputs;
    for (const NodeProfile& n : nodes.nodes) inputs.push_back(n.inputs);
    return inputs;
  }

  void try_stages(const PipelineRule& rule, std::vector<StagePlace>& stages) {
    const int set = stages.empty() ? 0 : stages.back().set;
    const int used = stages.empty() ? 0 : stages.back().devices.first + stages.back().devices.count;
    if (set == sets_.last()) {
      if (used == topology_.devices() || options_.fewer) consider(rule, stages);
      return;
    }
    for (int next = set + 1; next < sets_.size(); ++next) {
      if (!sets_.contains(next, set)) continue;
      for (int count = 1; used + count <= topology_.devices(); ++count) {
        stages.push_back({set, next, {used, count}, 0});
        try_stages(rule, stages);
        stages.pop_back();
      }
    }
  }

  void consider(const PipelineRule& rule, const std::vector<StagePlace>& stages) {
    double slowest = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      StagePlace place = stages[s];
      if (place.devices.count * rule.micro_batches > kRows) return;
      place.behind = static_cast<int>(stages.size() - 1 - s);
      costs_.simulate_exchange(place, rule);
      const double most = topology_.memory_bytes > 0 ? topology_.memory_bytes : kInfinite;
      const StageCosts::Stage stage =
          costs_.stage(place, costs_.sums(place.before, place.set), rule, most, options_.recompute);
      if (stage.bytes > most) return;
      slowest = std::max(slowest, stage.seconds);
    }
    least_s_ = std::min(least_s_, rule.seconds(slowest, static_cast<int>(stages.size())));
  }

  const Topology& topology_;
  const PipelinePlanOptions& options_;
  const ComputedNodes nodes_;
  const ClosedSets sets_;
  StageCosts costs_;
  double least_s_ = kInfinite;
};

TEST(Exhaustive, NoPlanIsBetterByMeasuredCosts) {
  const std::vector<std::vector<int>> all_units = {{2}, {3}, {2, 2}};
  Compared count;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "measured plans");
    const int nodes = 1 + static_cast<int>(rng.next_below(4));
    ModelProfile profile = testing::random_profile(rng, nodes, seed % 2 == 1);
    Topology topology = testing::random_topology(rng, all_units[rng.next_below(all_units.size())]);
    profile.batch = kRows;
    if (seed % 3 != 0) topology.memory_bytes = rng.next_uniform() * 2e8 * nodes;
    PipelinePlanOptions options = random_options(rng);
    options.published_costs = false;
    options.minibatch_ratio = 1;
    options.preset = PlanPreset::kHybrid;
    constexpr const char* kSchedules[] = {"auto", "1f1b", "zb"};
    options.schedule = kSchedules[rng.next_below(3)];
    const double least_s = AllMeasuredPlans(profile, topology, options).least_s();
    int states = 0;
    const double is = planned_s(profile, topology, options, &states);
    count.compare(is, least_s);
  }
  EXPECT_GE(count.fit, 10);
  EXPECT_GE(count.do_not, 1);
}

}  // namespace
}  // namespace ndtrain
