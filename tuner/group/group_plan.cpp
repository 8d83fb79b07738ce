#include "tuner/group/group_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/parallel/between_ranks.h"
#include "framework/pipeline/planner/planner.h"
#include "framework/pipeline/profiler/measure_network.h"
#include "framework/pipeline/profiler/measure_profile.h"
#include "framework/train/random_rows.h"

namespace ndtrain::tuner {
namespace {

using Say = std::function<void(const std::string& line)>;

// What a profile takes at most: the network is measured for as long.
constexpr std::chrono::seconds kProfiling{3};
constexpr int kProfiledSteps = 30;

// "": stages can train it.
std::string why_not_by_stages(const GroupRules& rules) {
  if (rules.spec.trainer.optimizer.clip_norm > 0) {
    return "stages do not clip gradients, whose norm is over all of them";
  }
  if (rules.compute == DType::kF16) return "stages do not compute in f16; bf16 and f32 they do";
  return "";
}

ModelProfile profile_of(const GroupRules& rules, const Model& head, const Device& device,
                        Clock& clock) {
  const TrainerConfig& trainer = rules.spec.trainer;
  TensorDataset rows = random_rows(head, trainer.batch, trainer.seed);
  const auto begun = clock.monotonic();
  const auto on_step = [&](int) { return clock.monotonic() - begun < kProfiling; };
  return measure_profile(head, rules.trainable, device, rows,
                         {.model = "head",
                          .batch = trainer.batch,
                          .steps = kProfiledSteps,
                          .compute = rules.compute,
                          .optimizer = trainer.optimizer,
                          .seed = trainer.seed,
                          .on_step = on_step},
                         clock);
}

// Each replica has two rows of a step at least, as batch statistics need.
bool has_rows_for(const PipelinePlan& plan, int64_t least_rows) {
  const auto by_replicas = [](const PlannedStage& a, const PlannedStage& b) {
    return a.replicas < b.replicas;
  };
  const int most = std::ranges::max_element(plan.stages, by_replicas)->replicas;
  return most == 1 || least_rows >= 2 * int64_t{most};
}

// Rank 0's; none: by rows.
std::optional<PipelinePlan> choose(const GroupRules& rules, const ModelProfile& profile,
                                   const Topology& network, const Say& say,
                                   const std::optional<PipelinePlan>& before) {
  const bool any = rules.spec.parallel == "auto";
  const int64_t least = before ? before->micro_batches : 1;
  const int64_t most = before ? before->micro_batches : rules.spec.micro_batches;
  const auto plan_of = [&](PlanPreset preset) {
    return plan_pipeline(profile, network,
                         {.preset = preset,
                          .schedule = rules.spec.pipeline_schedule,
                          .least_micro_batches = least,
                          .most_micro_batches = most});
  };
  PipelinePlan plan =
      plan_of(rules.spec.parallel == "pipeline" ? PlanPreset::kPipeline : PlanPreset::kHybrid);
  if (plan.stages.size() > 1 && !has_rows_for(plan, rules.least_rows)) {
    say(
        fmt::format("the last step of an epoch has {} photos, too few for stages on several "
                    "Tuners: each stage is on one",
                    rules.least_rows));
    plan = plan_of(PlanPreset::kPipeline);
    if (any && plan.data_parallel_s <= plan.seconds) plan = plan_of(PlanPreset::kDataParallel);
  }
  const bool by_rows = plan.stages.size() == 1;
  say(fmt::format(
      "{} of {} Tuners: {:.1f} ms a step predicted; by rows {:.1f}, one Tuner alone "
      "{:.1f}",
      by_rows ? "by rows" : fmt::format("{} stages", plan.stages.size()), network.devices(),
      plan.seconds * 1e3, plan.data_parallel_s * 1e3, plan.one_device_s * 1e3));
  if (by_rows) return std::nullopt;
  return plan;
}

}  // namespace

std::optional<PipelinePlan> plan_group(Communicator& ranks, const GroupRules& rules,
                                       const Model& head, const Device& device, Clock& clock,
                                       const Say& say, const std::optional<PipelinePlan>& before) {
  const std::string& how = rules.spec.parallel;
  if (how == "dp") return std::nullopt;
  const bool leads = ranks.rank() == 0;
  if (const std::string why = why_not_by_stages(rules); !why.empty()) {
    if (how != "auto") throw Error("--parallel ", how, ": ", why, "; take dp");
    if (leads) say("by rows: " + why);
    return std::nullopt;
  }
  const int units[] = {ranks.ranks()};
  const Topology network = measure_network(ranks, units, {}, clock);
  if (!leads) {
    const std::string text = broadcast(ranks, 0, "");
    if (text.empty()) return std::nullopt;
    return parse_pipeline_plan(text, "the plan of the Tuner that leads");
  }
  std::optional<PipelinePlan> plan =
      choose(rules, profile_of(rules, head, device, clock), network, say, before);
  broadcast(ranks, 0, plan ? plan->text() : "");
  return plan;
}

}  // namespace ndtrain::tuner
