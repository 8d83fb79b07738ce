#include "ndp/jobs/sparse_ranks.h"

#include <fmt/format.h>

#include <utility>

#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"

namespace ndtrain::ndp {
namespace {

// Bytes of a gradient that 100 Mb/s carry in a tenth of a second.
constexpr double kSmallGradient = 1e6;

}  // namespace

SparseRanks::SparseRanks(const TransferModel& model, const Device& device,
                         const TrainerConfig& trainer, SparseConfig config,
                         std::unique_ptr<Communicator> ranks, Fs& fs, Progress& progress)
    : config_(std::move(config)), progress_(progress) {
  const int rank = ranks->rank();
  SparseTraining::Options options{
      .sync = config_.sync, .drain_every = config_.drain_every, .shares = config_.shares};
  if (!config_.directory.empty()) options.files.emplace(fs, config_.directory, rank);
  training_ = std::make_unique<SparseTraining>(model.head, model.trainable, device, trainer,
                                               std::move(ranks), std::move(options));
  if (rank != 0) return;
  const int count = training_->communicator().ranks();
  const SparseSyncOptions& sync = config_.sync;
  const auto share = [count](double drop) {
    return fmt::format("{:.3g} %", 100 * (1 - drop) / count);
  };
  std::string what = share(sync.drop);
  std::string rest = "keeps the rest for the next step";
  if (make_compressor(sync.compressor, {})->takes_all()) {
    what = "the signs";
    rest =
        sync.compressor == "signum" ? "keeps nothing" : "keeps what they leave for the next step";
  }
  if (!sync.first_drops.empty()) {
    what += fmt::format(" ({} in the first of {} epochs that have more)",
                        share(sync.first_drops.front()), sync.first_drops.size());
  }
  progress_.say(
      fmt::format("of each gradient a rank sends {} (--compressor {}), and {}; another number of "
                  "ranks gives another "
                  "model",
                  what, sync.momentum > 0 ? "dgc" : sync.compressor, rest));
  if (sync.staleness > 0) {
    progress_.say(fmt::format(
        "a step computes without what the last {} have sent, which travels meanwhile; all is "
        "applied behind every {} steps of an epoch and at its end",
        sync.staleness, config_.drain_every));
  }
  const double bytes = gradient_bytes();
  if (bytes < kSmallGradient) {
    log::warn(
        "--sync sparse: a whole gradient has {:.1f} KB; other schedules send all of it, and learn "
        "faster",
        bytes / 1e3);
  }
}

double SparseRanks::gradient_bytes() const {
  return static_cast<double>(training_->trainer().parameter_count()) * sizeof(float);
}

void SparseRanks::agree(const Fingerprint& decisive) {
  Fingerprint all = decisive;
  all.emplace_back("--shares", fmt::format("{}", fmt::join(config_.shares, ":")));
  check_same(training_->communicator(), all);
}

void SparseRanks::agree_on_one_cache(const Fingerprint& decisive) {
  if (training_->communicator().rank() == 0) barrier(training_->communicator());
  agree(decisive);
}

SparseRanks::Figures SparseRanks::describe() {
  const SparseSync& sync = training_->sync();
  Figures f{.exposed_s = sync.exposed_s(),
            .step_s = training_->step_s(),
            .step_gradient_bytes = gradient_bytes(),
            .left_out = sync.left_out()};
  if (sync.steps() > 0) {
    f.step_sent_bytes = static_cast<double>(sync.sent_bytes()) / static_cast<double>(sync.steps());
  }
  if (training_->communicator().rank() != 0) return f;
  progress_.say(fmt::format("{:.3g} of {:.3g} MB of gradients were sent in a step",
                            f.step_sent_bytes / 1e6, f.step_gradient_bytes / 1e6));
  if (f.left_out > 0) {
    progress_.say(fmt::format("{} steps were left out: gradients were not finite", f.left_out));
  }
  return f;
}

void SparseRanks::leave_together() {
  try {
    barrier(training_->communicator());
  } catch (const RankLost& lost) {
    log::debug("{}", lost.what());
  }
}

}  // namespace ndtrain::ndp
