#include "ndp/jobs/slow_link_ranks.h"

#include <fmt/format.h>

#include <utility>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/parallel/between_ranks.h"
#include "ndp/jobs/rates_log.h"

namespace ndtrain::ndp {
namespace {

// Bytes of a gradient that 100 Mb/s carry in a tenth of a second.
constexpr double kSmallGradient = 1e6;

}  // namespace

SlowLinkRanks::SlowLinkRanks(const TransferModel& model, const Device& device,
                             const TrainerConfig& trainer, SlowLinkConfig config,
                             std::unique_ptr<Communicator> ranks, Fs& fs, Progress& progress)
    : config_(std::move(config)), fs_(fs), progress_(progress) {
  const int rank = ranks->rank();
  SlowLinkTraining::Options options{.drain_every = config_.method.drain_every,
                                    .verify_every = config_.verify_every,
                                    .shares = config_.shares,
                                    .sites = config_.sites,
                                    .trace = !config_.trace.empty()};
  if (!config_.directory.empty()) options.files.emplace(fs, config_.directory, rank);
  if (!config_.directory.empty() && rank == 0) {
    options.log = rates_log(fs, config_.directory);
  }
  begin(model, device, trainer, std::move(ranks), std::move(options));
  if (rank == 0) say_what_is_done();
}

void SlowLinkRanks::begin(const TransferModel& model, const Device& device,
                          const TrainerConfig& trainer, std::unique_ptr<Communicator> ranks,
                          SlowLinkTraining::Options options) {
  if (config_.regroup) {
    regrouped_ = std::make_unique<RegroupedTraining>(
        model.head, model.trainable, device, trainer, std::move(ranks), std::move(options),
        config_.method.make, [this](const RegroupedTraining::Loss& loss) { say_loss(loss); });
  } else {
    all_or_none_ = std::make_unique<SlowLinkTraining>(model.head, model.trainable, device, trainer,
                                                      std::move(ranks), std::move(options),
                                                      config_.method.make);
  }
}

SlowLinkTraining& SlowLinkRanks::now() { return regrouped_ ? regrouped_->now() : *all_or_none_; }

const SlowLinkTraining& SlowLinkRanks::now() const {
  return regrouped_ ? regrouped_->now() : *all_or_none_;
}

RankedTraining& SlowLinkRanks::training() {
  if (regrouped_) return *regrouped_;
  return *all_or_none_;
}

int64_t SlowLinkRanks::parameters() const {
  return now().gradient_bytes() / static_cast<int64_t>(sizeof(float));
}

void SlowLinkRanks::say_what_is_done() {
  const int count = now().communicator().ranks();
  for (const std::string& what : config_.method.what_it_does(count, now().sites())) {
    progress_.say(what);
  }
  const auto bytes = static_cast<double>(now().gradient_bytes());
  if (bytes < kSmallGradient) {
    log::warn(
        "--sync {}: a whole gradient has {:.1f} KB; other schedules send all of it, and learn "
        "faster",
        config_.method.name, bytes / 1e3);
  }
}

void SlowLinkRanks::say_loss(const RegroupedTraining::Loss& loss) {
  if (loss.left.front() != training().communicator().rank()) return;
  progress_.say(fmt::format(
      "without rank {}, and what it had not sent, ranks {} go on from epoch {}, step {}",
      fmt::join(loss.lost, ", "), fmt::join(loss.left, ", "), loss.epoch + 1, loss.step));
}

void SlowLinkRanks::agree(const Fingerprint& decisive) {
  Fingerprint all = decisive;
  all.emplace_back("--shares", fmt::format("{}", fmt::join(config_.shares, ":")));
  all.emplace_back("--trace", config_.trace.empty() ? "absent" : "given");
  all.emplace_back("--all-gather", name_of(config_.method.route));
  all.emplace_back("--on-rank-loss", config_.regroup ? "regroup" : "end");
  check_same(training().communicator(), all);
}

SlowLinkRanks::Figures SlowLinkRanks::describe() {
  const SlowLinkTraining::Figures all = regrouped_ ? regrouped_->figures() : now().figures();
  Figures f{.exposed_s = all.exposed_s,
            .step_s = all.step_s,
            .step_gradient_bytes = static_cast<double>(now().gradient_bytes()),
            .left_out = all.left_out};
  if (all.steps > 0) {
    f.step_sent_bytes = static_cast<double>(all.sent_bytes) / static_cast<double>(all.steps);
  }
  write_trace();
  if (training().communicator().rank() != 0) return f;
  progress_.say(fmt::format("{:.3g} of {:.3g} MB of gradients were sent in a step",
                            f.step_sent_bytes / 1e6, f.step_gradient_bytes / 1e6));
  if (f.left_out > 0) {
    progress_.say(fmt::format("{} steps were left out: gradients were not finite", f.left_out));
  }
  return f;
}

// The training is worth more than its trace.
void SlowLinkRanks::write_trace() {
  if (config_.trace.empty()) return;
  try {
    const std::string trace = now().trace();
    if (now().communicator().rank() != 0) return;
    const Status written = publish(fs_, config_.trace, trace);
    if (!written.ok()) log::warn("--trace {}: {}", config_.trace, written.message());
  } catch (const RankLost& lost) {  // the others have the whole training
    log::warn("--trace {}: {}", config_.trace, lost.what());
  }
}

void SlowLinkRanks::leave_together() {
  try {
    try {
      barrier(training().communicator());
    } catch (const RankLost& lost) {
      training().regroup_after(lost);  // some may still be behind the last epoch
    }
  } catch (const RankLost& lost) {
    log::debug("{}", lost.what());
  }
}

}  // namespace ndtrain::ndp
