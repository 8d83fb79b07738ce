#include "framework/sparse/sync/slow_link_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "framework/core/clock.h"
#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"
#include "framework/runtime/free_memory.h"
#include "framework/sparse/sync/host_staged_sync.h"
#include "framework/sparse/sync/sites.h"
#include "framework/train/safetensors.h"
#include "framework/train/shards.h"

namespace ndtrain {
namespace {

constexpr const char* kHostBackend = "cpu";  // updates parameters that are staged in the host

}  // namespace

SlowLinkTraining::SlowLinkTraining(Model model, std::vector<std::string> trainable,
                                   const Device& device, TrainerConfig config,
                                   std::unique_ptr<Communicator> communicator, Options options,
                                   const MakeSync& make_sync)
    : options_(std::move(options)), communicator_(std::move(communicator)) {
  const RankGroup members = communicator_->members();
  if (options_.drain_every < 1)
    throw Error("drained every ", options_.drain_every, " steps: 1 or more");
  if (options_.verify_every < 0)
    throw Error("verified every ", options_.verify_every, " steps: 0 or more");
  if (config.optimizer.ema > 0) {
    throw Error("an average of the weights (ema ", config.optimizer.ema,
                ") is of ranks that take every step alike, which those over slow links do not; "
                "leave it away, or take another sync");
  }
  if (!options_.shares.empty() && std::ssize(options_.shares) != communicator_->ranks()) {
    throw Error(options_.shares.size(), " shares of ", communicator_->ranks(), " ranks");
  }
  std::vector<double> shares;
  for (const int r : members) {
    shares.push_back(options_.shares.empty() ? 1 : options_.shares[static_cast<size_t>(r)]);
  }
  const std::vector<int> first_shards = shards_of_ranks(config.shards, shares);
  const auto place =
      static_cast<size_t>(std::ranges::find(members, communicator_->rank()) - members.begin());
  own_ = {first_shards[place], first_shards[place + 1]};
  config.own_shards = own_;
  if (!device.shares_host_memory()) {
    host_ = std::make_unique<Device>(Backend::find(kHostBackend));
    config.update_device = host_.get();
  }
  sites_ = Sites(*communicator_, options_.sites).count();
  trainer_ = std::make_unique<Trainer>(
      std::move(model), std::move(trainable), device, config,
      [&](const Trainer::Shared& shared) -> std::unique_ptr<GradientSync> {
        const auto make = [&](const Trainer::Shared& here) {
          parameters_ = &here.parameters;
          return make_sync(here, *communicator_, first_shards, options_.sites);
        };
        std::unique_ptr<SlowLinkSync> sync;
        if (host_) {
          sync = std::make_unique<HostStagedSync>(shared, own_, config.shards, *host_, make);
        } else {
          sync = make(shared);
        }
        sync_ = sync.get();
        if (config.compute == DType::kF16 && !sync_->shares_reports()) {
          throw Error(
              "in f16 each rank would scale its loss by itself, and a resumed run would know rank "
              "0's scale alone; take bf16");
        }
        if (options_.trace) return traced(std::move(sync), shared.parameters.slots());
        return sync;
      });
  // Ranks may be on one machine, though not on one GPU, and other programs want some, too.
  const int sharing = host_ ? 1 : communicator_->ranks();
  trainer_->vary_batches(sync_->batch_sizes([this, &device, sharing] {
    return trainer_->rows_that_fit(free_memory(device) / 2 / sharing);
  }));
}

std::unique_ptr<GradientSync> SlowLinkTraining::traced(std::unique_ptr<SlowLinkSync> sync,
                                                       std::span<const ParameterSlot> slots) {
  std::vector<std::string> names;
  for (const ParameterSlot& slot : slots) names.push_back(slot.name);
  auto timed = std::make_unique<TimedSync>(
      std::move(sync), std::move(names), [this] { return sync_->exposed_s(); }, system_clock());
  timed_ = timed.get();
  timed_->keep_spans(true);
  return timed;
}

SlowLinkTraining::~SlowLinkTraining() {
  if (sync_) sync_->abandon();
}

bool SlowLinkTraining::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  if (sync_->is_stopped()) return false;  // in the epoch before, which ended then
  if (restored_) settle_what_is_lost();
  changed_ = true;
  counted_ = trainer_->counts();
  sync_->begin_epoch(epoch());
  const std::chrono::nanoseconds begun = system_clock().monotonic();
  int64_t steps = 0, verified = trainer_->counts().step;
  const bool whole = trainer_->train_epoch(data, result, [&](int64_t done, int64_t total) {
    ++steps;
    if (timed_) trace_.add(timed_->take_spans(), communicator_->take_trace());
    for (const std::string& line : sync_->take_log()) {
      if (options_.log) options_.log(line);
    }
    stop_asked_ = stop_asked_ || (on_step && !on_step(done, total));
    if (stop_asked_) sync_->ask_to_stop();
    lost_ = false;
    const bool drains = done == total || done % options_.drain_every == 0;
    if (sync_->runs_ahead() && !drains) return true;
    const int64_t every = options_.verify_every;
    const bool verifies = done == total || (every > 0 && done / every > verified / every);
    if (drains || verifies || sync_->is_stopped()) sync_->flush();
    if (!sync_->shares_reports()) add_counts_of_others();
    if (verifies) verify(done);
    verified = done;
    if (options_.on_drained && drains && done != total) options_.on_drained();
    return !sync_->is_stopped();
  });
  if (whole && steps > 0) {
    const std::chrono::duration<double> took = system_clock().monotonic() - begun;
    step_s_ = took.count() / static_cast<double>(steps);
  }
  return whole;
}

Checkpoint SlowLinkTraining::checkpoint() {
  if (!gathered()) gather();
  return trainer_->checkpoint();
}

// Whoever has saved a checkpoint before has done so when it comes here again: of the positions
// before that one nothing is needed.
void SlowLinkTraining::gather() {
  if (!options_.files) return;
  sync_->flush();
  const StateFiles::Position at = position();
  options_.files->write(at, sync_->state());
  barrier(*communicator_);
  options_.files->keep_only({kept_.value_or(at), at});
  kept_ = at;
  changed_ = false;
}

void SlowLinkTraining::count_as_gathered() {
  if (!options_.files) return;
  kept_ = position();
  changed_ = false;
}

StateFiles::Position SlowLinkTraining::position() const {
  const EpochCounts& counts = trainer_->counts();
  return {counts.epoch, counts.step};
}

void SlowLinkTraining::Figures::add_earlier(const Figures& f) {
  steps += f.steps;
  left_out += f.left_out;
  sent_bytes += f.sent_bytes;
  exposed_s += f.exposed_s;
  decisions += f.decisions;
  if (step_s == 0) step_s = f.step_s;
}

SlowLinkTraining::Figures SlowLinkTraining::figures() const {
  const std::optional<RatesNow> rates = sync_->rates();
  return {.steps = sync_->steps(),
          .left_out = sync_->left_out(),
          .sent_bytes = sync_->sent_bytes(),
          .exposed_s = sync_->exposed_s(),
          .step_s = step_s_,
          .last_step = sync_->last_step(),
          .rates = rates,
          .decisions = rates ? rates->decisions : 0};
}

SlowLinkTraining::Kept SlowLinkTraining::keep() {
  return {.checkpoint = trainer_->checkpoint(), .state = sync_->state(), .lost = lost_};
}

void SlowLinkTraining::go_on_from(const Kept& kept, std::optional<StateFiles::Position> file) {
  trainer_->restore(kept.checkpoint);
  if (kept.checkpoint.optimizer_steps == 0) {
    sync_->forget();
  } else {
    sync_->restore(kept.state);
  }
  lost_ = kept.lost;
  kept_ = file;
  restored_ = changed_ = true;
}

std::unique_ptr<Communicator> SlowLinkTraining::take_communicator() {
  sync_->end_after_loss();
  return std::move(communicator_);
}

void SlowLinkTraining::restore(const Checkpoint& c) {
  trainer_->restore(c);
  const StateFiles::Position at{c.epoch, c.step};
  sync_->forget();
  const auto state = options_.files ? options_.files->read(at) : std::nullopt;
  if (state) sync_->restore(*state);
  kept_ = state ? std::optional(at) : std::nullopt;
  changed_ = !state;
  lost_ = !state && c.optimizer_steps > 0;
  restored_ = true;
}

void SlowLinkTraining::reset_optimizer() {
  trainer_->reset_optimizer();
  sync_->forget();
  changed_ = true;
}

std::string SlowLinkTraining::trace() {
  timed_->flush();
  trace_.add(timed_->take_spans(), communicator_->take_trace());
  return trace_.collect(*communicator_, system_clock());
}

// Throws the same Error on all ranks.
void SlowLinkTraining::verify(int64_t step) {
  const size_t bytes = static_cast<size_t>(parameters_->size()) * sizeof(float);
  const RankGroup members = communicator_->members();
  const std::vector<std::string> of_ranks =
      ndtrain::gather(*communicator_, fmt::format("{:016x}", xxh3(parameters_->values(), bytes)));
  for (size_t r = 1; r < of_ranks.size(); ++r) {
    if (of_ranks[r] == of_ranks[0]) continue;
    throw Error("epoch ", epoch() + 1, ", step ", step, ": rank ", members[r],
                " has other parameters than rank ", members[0], " (", of_ranks[r], ", ",
                of_ranks[0],
                "): its memory or what it received is broken; go on from the last checkpoint with "
                "--resume");
  }
}

// Of the steps since the last time, in which each rank has counted all rows, and what its own
// shards say of theirs.
void SlowLinkTraining::add_counts_of_others() {
  using Sums = std::array<double, 3>;
  const EpochCounts& now = trainer_->counts();
  const Sums own = {now.loss_sum - counted_.loss_sum, now.correct - counted_.correct,
                    now.correct_top5 - counted_.correct_top5};
  std::string bytes(sizeof own, '\0');
  std::memcpy(bytes.data(), own.data(), bytes.size());
  for (const std::string& of_rank : ndtrain::gather(*communicator_, bytes)) {
    Sums sums;
    if (of_rank.size() != sizeof sums) throw Error("a rank of another version has no sums");
    std::memcpy(sums.data(), of_rank.data(), sizeof sums);
    counted_.loss_sum += sums[0];
    counted_.correct += sums[1];
    counted_.correct_top5 += sums[2];
  }
  trainer_->set_sums(counted_);
}

// Ranks of a site keep the same: who has lost it gets it of the first that has it.
void SlowLinkTraining::take_from_site(std::vector<std::string>& lost_of_ranks) {
  const RankGroup members = communicator_->members();
  const auto site_of = [&](size_t i) {
    return options_.sites.empty() ? members[i] : options_.sites[static_cast<size_t>(members[i])];
  };
  std::map<int, size_t> givers;  // by site
  for (size_t i = 0; i < members.size(); ++i) {
    if (lost_of_ranks[i].empty()) givers.emplace(site_of(i), i);
  }
  for (size_t i = 0; i < members.size(); ++i) {
    const auto giver = givers.find(site_of(i));
    if (lost_of_ranks[i].empty() || giver == givers.end()) continue;
    lost_of_ranks[i].clear();
    const int from = members[giver->second], to = members[i], here = communicator_->rank();
    if (here != from && here != to) continue;
    const std::string ours =
        here == from ? to_safetensors({.tensors = sync_->state(), .metadata = {}}) : "";
    const std::string bytes =
        broadcast(*communicator_, from, ours, {std::min(from, to), std::max(from, to)});
    if (here == from) continue;
    sync_->restore(from_safetensors(bytes).or_throw().tensors);
    lost_ = false;
  }
}

// Collective; the lowest rank says it.
void SlowLinkTraining::settle_what_is_lost() {
  std::vector<std::string> of_ranks = ndtrain::gather(*communicator_, lost_ ? "lost" : "");
  restored_ = false;
  take_from_site(of_ranks);
  const bool lost = std::ranges::any_of(of_ranks, [](const auto& said) { return !said.empty(); });
  if (lost) sync_->forget_what_is_shared();
  const RankGroup members = communicator_->members();
  if (communicator_->rank() != members[0]) return;
  for (size_t r = 0; r < of_ranks.size(); ++r) {
    if (of_ranks[r].empty()) continue;
    const std::string line = fmt::format(
        "rank {} has no file of what it had not sent of its gradients yet, and keeps besides: that "
        "is lost, and the training goes on without it",
        members[r]);
    if (options_.warn) {
      options_.warn(line);
    } else {
      log::warn("{}", line);
    }
  }
}

}  // namespace ndtrain
