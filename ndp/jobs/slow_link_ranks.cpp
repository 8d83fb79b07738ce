#include "ndp/jobs/slow_link_ranks.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/parallel/between_ranks.h"

namespace ndtrain::ndp {
namespace {

// Bytes of a gradient that 100 Mb/s carry in a tenth of a second.
constexpr double kSmallGradient = 1e6;

// A training is worth more than its log.
void add_line(Fs& fs, const std::string& path, const std::string& line) {
  const auto file = fs.open(path, Fs::Mode::kAppend);
  const std::string text = line + "\n";
  const Status written =
      file.ok() ? (*file)->append(std::as_bytes(std::span(text))) : file.status();
  if (!written.ok()) log::warn("{}: {}", path, written.message());
}

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
    options.log = [&fs, path = join(config_.directory, kRatesLog)](const std::string& line) {
      add_line(fs, path, line);
    };
  }
  training_ =
      std::make_unique<SlowLinkTraining>(model.head, model.trainable, device, trainer,
                                         std::move(ranks), std::move(options), config_.method.make);
  if (rank != 0) return;
  const int count = training_->communicator().ranks();
  for (const std::string& what : config_.method.what_it_does(count, training_->sites())) {
    progress_.say(what);
  }
  const double bytes = gradient_bytes();
  if (bytes < kSmallGradient) {
    log::warn(
        "--sync {}: a whole gradient has {:.1f} KB; other schedules send all of it, and learn "
        "faster",
        config_.method.name, bytes / 1e3);
  }
}

double SlowLinkRanks::gradient_bytes() const {
  return static_cast<double>(training_->trainer().parameter_count()) * sizeof(float);
}

void SlowLinkRanks::agree(const Fingerprint& decisive) {
  Fingerprint all = decisive;
  all.emplace_back("--shares", fmt::format("{}", fmt::join(config_.shares, ":")));
  all.emplace_back("--trace", config_.trace.empty() ? "absent" : "given");
  check_same(training_->communicator(), all);
}

void SlowLinkRanks::agree_on_one_cache(const Fingerprint& decisive) {
  if (training_->communicator().rank() == 0) barrier(training_->communicator());
  agree(decisive);
}

SlowLinkRanks::Figures SlowLinkRanks::describe() {
  const SlowLinkSync& sync = training_->sync();
  Figures f{.exposed_s = sync.exposed_s(),
            .step_s = training_->step_s(),
            .step_gradient_bytes = gradient_bytes(),
            .left_out = sync.left_out()};
  if (sync.steps() > 0) {
    f.step_sent_bytes = static_cast<double>(sync.sent_bytes()) / static_cast<double>(sync.steps());
  }
  write_trace();
  if (training_->communicator().rank() != 0) return f;
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
    const std::string trace = training_->trace();
    if (training_->communicator().rank() != 0) return;
    const Status written = publish(fs_, config_.trace, trace);
    if (!written.ok()) log::warn("--trace {}: {}", config_.trace, written.message());
  } catch (const RankLost& lost) {  // the others have the whole training
    log::warn("--trace {}: {}", config_.trace, lost.what());
  }
}

void SlowLinkRanks::leave_together() {
  try {
    barrier(training_->communicator());
  } catch (const RankLost& lost) {
    log::debug("{}", lost.what());
  }
}

}  // namespace ndtrain::ndp
