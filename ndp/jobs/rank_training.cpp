#include "ndp/jobs/rank_training.h"

#include <fmt/format.h>

#include <utility>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/plan_by_sizes.h"
#include "ndp/jobs/exchange_files.h"
#include "ndp/jobs/run_settings.h"

namespace ndtrain::ndp {

RankTraining::RankTraining(const TransferModel& model, const Device& device,
                           const TrainerConfig& trainer, RankConfig config,
                           std::unique_ptr<Communicator> ranks, const Place& place)
    : config_(std::move(config)), place_(place) {
  say_what_is_exchanged();
  const PlanTuner::Options tuned = tuning();
  const auto plan = [sync = config_.sync, all = ranks->ranks(),
                     sizes = tuned.plan](const ParameterSpace& parameters) {
    return first_plan(sync, parameters, all, sizes);
  };
  training_ =
      std::make_unique<DataParallel>(model.head, model.trainable, device, trainer, std::move(ranks),
                                     DataParallel::Options{.plan = plan,
                                                           .shares = config_.shares,
                                                           .measure_shares = config_.measure_shares,
                                                           .exchange = config_.exchange,
                                                           .tuning = tuned,
                                                           .trace = !config_.trace.empty(),
                                                           .clock = &place_.clock,
                                                           .regroup = config_.regroup,
                                                           .saved = place_.saved});
}

PlanTuner::Options RankTraining::tuning() {
  PlanTuner::Options tuning{.schedule = config_.sync,
                            .say = [this](const std::string& line) { place_.progress.say(line); },
                            .timed = [this](const ExchangeReport& r) { keep_exchange(r); }};
  if (config_.bucket_bytes > 0) tuning.plan.bucket_bytes = config_.bucket_bytes;
  if (config_.tune_buckets) tuning.buckets.emplace();
  tuning.plan.shard_optimizer = config_.exchange.shard_optimizer;
  return tuning;
}

void RankTraining::say_what_is_exchanged() {
  if (config_.exchange.wire != DType::kF32) {
    place_.progress.say(fmt::format(
        "gradients travel as {}: the result is the same on all ranks, but another one than by "
        "another number of ranks",
        name_of(config_.exchange.wire)));
  }
  if (config_.is_breakdown()) {
    place_.progress.say(
        "a part of each exchange is left out (--comm-only), to see what the rest costs: what is "
        "trained so is nothing; it is not validated, and no model is written");
  }
}

void RankTraining::agree(const Fingerprint& decisive) {
  Fingerprint all = decisive;
  all.emplace_back("--sync", config_.sync);
  all.emplace_back("--shares", config_.measure_shares
                                   ? "measured"
                                   : fmt::format("{}", fmt::join(config_.shares, ":")));
  all.emplace_back("--bucket-size",
                   config_.tune_buckets ? "auto" : fmt::format("{} bytes", config_.bucket_bytes));
  all.emplace_back("--trace", config_.trace.empty() ? "absent" : "given");
  all.emplace_back("--shard-optimizer", config_.exchange.shard_optimizer ? "true" : "false");
  check_same(training_->communicator(), all);
}

// At rank 0, when enough steps have been timed, or at the end.
void RankTraining::keep_exchange(const ExchangeReport& report) {
  place_.progress.say(exchange_line(config_.sync, report));
  write_exchange(place_.run, report);
  exchange_kept_ = true;
}

std::optional<ExchangeReport> RankTraining::describe_exchange() {
  std::optional<ExchangeReport> report;
  std::string trace;
  try {
    report = training_->exchange_report();
    if (!config_.trace.empty()) trace = training_->trace();
  } catch (const RankLost& lost) {  // the others have the whole training
    log::warn("what a step takes is not known: {}", lost.what());
    return report;
  }
  if (training_->communicator().rank() != 0) return report;
  if (!exchange_kept_) keep_exchange(*report);
  if (config_.trace.empty()) return report;
  // The training is worth more than its trace.
  const Status written = publish(place_.fs, config_.trace, trace);
  if (!written.ok()) log::warn("--trace {}: {}", config_.trace, written.message());
  return report;
}

void RankTraining::leave_together() {
  try {
    training_->barrier();
  } catch (const RankLost& lost) {
    log::debug("{}", lost.what());
  }
}

void share_run(Communicator& ranks, Fs& fs, const std::string& out) {
  if (ranks.rank() != 0) fs.make_directories(out).or_throw();
  for (const char* name : {kRunArgs, "metrics.jsonl", "best.safetensors", "last.safetensors"}) {
    const std::string file = join(out, name);
    const bool first = ranks.rank() == 0;
    const bool there = first && fs.exists(file);
    if (broadcast(ranks, 0, there ? "there" : "").empty()) continue;
    const std::string bytes = broadcast(ranks, 0, first ? fs.read(file).or_throw() : "");
    if (!first) publish(fs, file, bytes).or_throw();
  }
}

}  // namespace ndtrain::ndp
