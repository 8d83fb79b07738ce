#include "ndp/jobs/stage_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"
#include "framework/pipeline/run/stage_cuts.h"

namespace ndtrain::ndp {
namespace {

std::string ranks_of(const PipelineTraining::StageSize& stage) {
  if (stage.replicas == 1) return fmt::format("rank {}", stage.rank);
  return fmt::format("ranks {} to {}, which share the photos", stage.rank,
                     stage.rank + stage.replicas - 1);
}

}  // namespace

StageConfig stages_of_plan(const PipelinePlan& plan) {
  StageConfig config{.schedule = plan.schedule, .micro_batches = plan.micro_batches};
  bool alone = true;
  for (const PlannedStage& s : plan.stages) {
    config.plan.push_back(s.nodes);
    config.recompute.push_back(s.recompute);
    config.replicas.push_back(s.replicas);
    alone = alone && s.replicas == 1;
  }
  if (alone) {
    config.replicas.clear();
  } else {
    config.sync = plan.sync;
  }
  return config;
}

PipelineTraining::Options options_of(const StageConfig& config, Clock& clock,
                                     std::function<void(const std::string& line)> say) {
  PipelineTraining::Options options{.schedule = config.schedule,
                                    .chunks = config.chunks,
                                    .replicas = config.replicas,
                                    .sync = config.sync,
                                    .say = std::move(say),
                                    .recompute = config.recompute,
                                    .drain_every = config.drain_every,
                                    .staleness = config.staleness,
                                    .clock = &clock};
  if (!config.plan.empty()) {
    options.cut = [plan = config.plan](const StepGraph& step, int) {
      return cut_by_names(step, plan);
    };
  }
  return options;
}

void say_stages(PipelineTraining& training, const StageConfig& config, Progress& progress) {
  progress.say(fmt::format("{} stages on {} ranks: {}, {} micro-batches of {} photos at most",
                           training.stages().size(), training.communicator().ranks(),
                           config.schedule, training.config().accumulate,
                           training.config().most_rows()));
  const auto is_late = [](const PipelineTraining::StageSize& s) { return s.versions > 1; };
  if (std::ranges::any_of(training.stages(), is_late)) {
    progress.say(fmt::format(
        "stages compute on earlier versions of their parameters; all is applied behind every {} "
        "steps of an epoch and at its end",
        config.drain_every));
  }
  for (size_t s = 0; s < training.stages().size(); ++s) {
    const PipelineTraining::StageSize& stage = training.stages()[s];
    progress.say(fmt::format(
        "stage {}, {}: {} nodes, {} to {}; {} parameters; {:.1f} KB of a photo go on{}{}", s,
        ranks_of(stage), stage.nodes, stage.first, stage.last, stage.parameters,
        static_cast<double>(stage.sent_bytes) / 1e3,
        is_late(stage) ? fmt::format("; {} versions of its parameters", stage.versions) : "",
        !config.recompute.empty() && config.recompute[s] ? "; forward computed twice" : ""));
  }
}

StageTraining::StageTraining(const TransferModel& model, const Device& device,
                             const TrainerConfig& trainer, const StageConfig& config,
                             std::unique_ptr<Communicator> ranks, Progress& progress, Clock& clock)
    : config_(config), progress_(progress) {
  const auto say = [&progress](const std::string& line) { progress.say(line); };
  training_ = std::make_unique<PipelineTraining>(model.head, model.trainable, device, trainer,
                                                 std::move(ranks), options_of(config, clock, say));
  if (training_->communicator().rank() == 0) say_stages(*training_, config_, progress_);
}

void StageTraining::agree(const Fingerprint& decisive) {
  Fingerprint all = decisive;
  all.emplace_back("--pipeline-schedule", config_.schedule);
  all.emplace_back("--stages-per-rank", std::to_string(config_.chunks));
  all.emplace_back("--replicas", fmt::format("{}", fmt::join(config_.replicas, ",")));
  all.emplace_back("--sync", config_.sync);
  all.emplace_back("--staleness, lr-scale", std::to_string(config_.staleness.lr_scale_steps));
  all.emplace_back("--staleness, predict", config_.staleness.predict ? "on" : "off");
  all.emplace_back("--staleness, delay-compensation",
                   fmt::format("{}", config_.staleness.compensation));
  all.emplace_back("--drain-every", std::to_string(config_.drain_every));
  for (size_t s = 0; s < config_.plan.size(); ++s) {
    all.emplace_back(fmt::format("--plan, stage {}", s),
                     fmt::format("{}", fmt::join(config_.plan[s], " ")));
  }
  all.emplace_back("micro-batches", std::to_string(training_->config().accumulate));
  check_same(training_->communicator(), all);
}

std::vector<StageTraining::RankFigures> StageTraining::describe() {
  const RankFigures ours{training_->waited_s(), training_->memory_bytes()};
  std::string bytes(sizeof ours, '\0');
  std::memcpy(bytes.data(), &ours, sizeof ours);
  std::vector<RankFigures> all;
  try {
    for (const std::string& theirs : gather(training_->communicator(), bytes)) {
      std::memcpy(&all.emplace_back(), theirs.data(), sizeof ours);
    }
  } catch (const RankLost& lost) {  // the others have the whole training
    log::warn("how long ranks have waited is not known: {}", lost.what());
    return {};
  }
  if (training_->communicator().rank() != 0) return all;
  std::string waited, memory;
  for (size_t r = 0; r < all.size(); ++r) {
    waited += fmt::format("{}rank {} {:.2f} s", r == 0 ? "" : ", ", r, all[r].waited_s);
    memory += fmt::format("{}rank {} {:.1f} MB", r == 0 ? "" : ", ", r,
                          static_cast<double>(all[r].memory_bytes) / 1e6);
  }
  progress_.say("waited for other ranks: " + waited);
  progress_.say("parameters, values and what passes work in: " + memory);
  return all;
}

void StageTraining::leave_together() {
  try {
    barrier(training_->communicator());
  } catch (const RankLost& lost) {
    log::debug("{}", lost.what());
  }
}

}  // namespace ndtrain::ndp
