#include "framework/sparse/local/local_steps.h"

#include <algorithm>
#include <utility>

#include "framework/core/log.h"
#include "framework/core/stopwatch.h"
#include "framework/parallel/between_ranks.h"
#include "framework/sparse/local/outer_optimizer.h"
#include "framework/sparse/sync/whole_gradient.h"
#include "framework/train/state_entry.h"

namespace ndtrain {
namespace {

constexpr const char* kVelocity = ".outer_velocity";

void check(const LocalStepsOptions& o) {
  if (o.inner_steps < 1) throw Error("ranks agree every ", o.inner_steps, " steps: 1 or more");
  if (!(o.outer_lr > 0)) throw Error("the outer learning rate is ", o.outer_lr, ": above 0");
  if (!(o.outer_momentum >= 0 && o.outer_momentum < 1)) {
    throw Error("the outer momentum is ", o.outer_momentum, ": 0 to below 1");
  }
  if (o.overlap < 0 || o.overlap >= o.inner_steps) {
    throw Error("an overlap of ", o.overlap, " steps: 0 to below the ", o.inner_steps,
                " steps after which a fragment is sent again");
  }
  if (!(o.mixing >= 0 && o.mixing < 1)) throw Error("mixing is ", o.mixing, ": 0 to below 1");
}

// The shards of all sites, in times this one's.
float times_own(const Communicator& communicator, const Sites& sites,
                const std::vector<int>& first_shards) {
  const RankGroup members = communicator.members();
  if (first_shards.size() != members.size() + 1) {
    throw Error("shards of ", std::ssize(first_shards) - 1, " ranks, but there are ",
                members.size());
  }
  int own = 0;
  for (size_t place = 0; place < members.size(); ++place) {
    if (std::ranges::count(sites.members(), members[place]) == 0) continue;
    own += first_shards[place + 1] - first_shards[place];
  }
  return static_cast<float>(first_shards.back()) / static_cast<float>(own);
}

// Whole floats are added up as they travel.
std::unique_ptr<OuterExchange> exchange_of(std::span<float> outer, const Trainer::Shared& shared,
                                           Communicator& communicator, const Sites& sites,
                                           const LocalStepsOptions& o) {
  if (const auto floats = float_type_of(o.wire); floats && o.compressor.empty()) {
    return dense_outer_exchange(outer, communicator, sites, *floats);
  }
  OuterSelection selection{.compressing = o.compressing,
                           .drop = o.drop,
                           .wire = o.wire,
                           .route = o.route,
                           .seed = o.seed};
  if (o.compressor.empty()) {
    selection.drop = 0;
  } else {
    selection.compressor = o.compressor;
  }
  return selective_outer_exchange(outer, shared.parameters.slots(), communicator, sites, selection);
}

}  // namespace

LocalStepsOptions averaging(int64_t inner_steps) {
  return {.inner_steps = inner_steps, .outer_lr = 1, .outer_momentum = 0};
}

LocalSteps::LocalSteps(const Trainer::Shared& shared, Communicator& communicator,
                       const std::vector<int>& first_shards, const LocalStepsOptions& options)
    : shared_(shared),
      communicator_(communicator),
      options_(options),
      fragments_(fragments_of(shared.parameters.slots(), options.fragments, options.inner_steps)),
      sites_(communicator, options.sites),
      times_own_(times_own(communicator, sites_, first_shards)),
      gradient_(shared, communicator, sites_),
      inner_(shared.parameters, shared.optimizer),
      outer_(static_cast<size_t>(shared.parameters.size())),
      exchange_(exchange_of(outer_, shared, communicator, sites_, options)) {
  check(options);
  if (!shared.device.shares_host_memory()) {
    throw Error("local steps are taken in memory of the host, which the device does not share");
  }
  agreed_.resize(outer_.size());
  if (options.outer_momentum > 0) velocity_.resize(outer_.size());
}

std::span<float> LocalSteps::values(ParameterRange range) const {
  return {shared_.parameters.values(range.begin), static_cast<size_t>(range.size())};
}

std::span<float> LocalSteps::part(std::vector<float>& of, ParameterRange range) {
  if (of.empty()) return {};
  return std::span(of).subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

void LocalSteps::begin(const HyperParameters& hyper) {
  if (since_ == 0) std::ranges::copy(values({0, shared_.parameters.size()}), agreed_.begin());
  exchange_what_is_due();
  ++since_;
  gradient_.enqueue();
  inner_.begin(hyper);
}

// Behind `since_` steps.
void LocalSteps::exchange_what_is_due() {
  const double mixing = options_.overlap > 0 ? options_.mixing : 0;
  const auto apply_due = [&] {
    while (!sent_.empty() && sent_.front().due == since_) apply_oldest(mixing);
  };
  apply_due();
  for (const Fragment& f : fragments_) {
    const bool is_due = since_ > 0 && (since_ - f.offset) % options_.inner_steps == 0;
    if (is_due) send(f, since_ + options_.overlap);
  }
  apply_due();
}

void LocalSteps::send(const Fragment& fragment, int64_t due) {
  const std::span<float> gradient = part(outer_, fragment.range);
  const std::span<const float> now = values(fragment.range);
  const std::span<const float> agreed = part(agreed_, fragment.range);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = (agreed[i] - now[i]) / times_own_;
  exchange_->begin(fragment);
  sent_.push_back({.fragment = &fragment, .due = due});
}

void LocalSteps::apply_oldest(double mixing) {
  const ParameterRange range = sent_.front().fragment->range;
  sent_.pop_front();
  {
    const Stopwatch waits(exposed_s_);
    exchange_->end();
  }
  const std::span<float> agreed = part(agreed_, range), now = values(range);
  outer_step(part(outer_, range), options_.outer_lr, options_.outer_momentum,
             part(velocity_, range), agreed);
  const auto own = static_cast<float>(mixing);
  if (own == 0) {
    std::ranges::copy(agreed, now.begin());
  } else {
    for (size_t i = 0; i < now.size(); ++i) now[i] = own * now[i] + (1 - own) * agreed[i];
  }
}

// Statistics of the shards of a site stand for those of all.
void LocalSteps::add_up_statistics() {
  gradient_.end(exposed_s_);
  const std::vector<float*>& sums = shared_.statistics->sums();
  const std::span<float> own(sums[0], static_cast<size_t>(shared_.statistics->size()));
  for (size_t tree = 1; tree < sums.size(); ++tree) {
    for (size_t i = 0; i < own.size(); ++i) own[i] += sums[tree][i];
  }
  add_up_in_site(own);
  for (float& x : own) x *= times_own_;
}

void LocalSteps::add_up_in_site(std::span<float> values) {
  if (sites_.members().size() == 1) return;
  CommOp op{.kind = CommOp::Kind::kAllReduce, .group = sites_.members(), .name = "statistics"};
  op.data = values;
  const Stopwatch waits(exposed_s_);
  const Communicator::Op sum = communicator_.enqueue(std::move(op));
  communicator_.release(sum);
  communicator_.wait(sum);
}

// Rows weigh what they would in the step of all ranks: here they are the whole step.
void LocalSteps::backward_done() {
  const std::span<float> own(shared_.gradients.sums()[0],
                             static_cast<size_t>(shared_.parameters.size()));
  for (float& x : own) x *= times_own_;
  if (!are_finite(own)) {
    ++left_out_;
    log::warn("a step is left out on rank {}: gradients are not finite", communicator_.rank());
    shared_.optimizer.leave_out();
    return;
  }
  inner_.backward_done();
  ++steps_;
}

void LocalSteps::flush() {
  if (since_ == 0) return;
  const double mixing = options_.overlap > 0 ? options_.mixing : 0;
  while (!sent_.empty()) apply_oldest(mixing);
  for (const Fragment& f : fragments_) send(f, since_);
  while (!sent_.empty()) apply_oldest(0);
  const Stopwatch waits(exposed_s_);
  if (shared_.statistics) average_statistics();
  for (const std::string& said : gather(communicator_, stop_ ? "stop" : "")) {
    stopped_ = stopped_ || !said.empty();
  }
  since_ = 0;
}

void LocalSteps::average_statistics() {
  std::map<std::string, Tensor> own = shared_.statistics->copy();
  std::vector<float> all;
  for (const auto& [name, t] : own) {
    for (const float x : t.as<float>()) all.push_back(x / times_own_);
  }
  SiteAllReduce sum(communicator_, sites_);
  sum.begin(all, "running statistics", DType::kF32);
  sum.end();
  auto from = all.begin();
  for (auto& [name, t] : own) {
    const std::span<float> to = t.mutable_as<float>();
    std::copy_n(from, to.size(), to.begin());
    from += std::ssize(to);
    shared_.statistics->set(name, t);
  }
}

std::map<std::string, Tensor> LocalSteps::state() const {
  std::map<std::string, Tensor> all = shared_.optimizer.state();
  all.merge(exchange_->state());
  if (velocity_.empty()) return all;
  const std::span<const ParameterSlot> slots = shared_.parameters.slots();
  for (size_t s = 0; s < slots.size(); ++s) {
    all.emplace(slots[s].name + kVelocity, shared_.parameters.copy(s, velocity_.data()));
  }
  return all;
}

void LocalSteps::restore(const std::map<std::string, Tensor>& state) {
  since_ = 0;
  shared_.optimizer.restore(state, shared_.optimizer.steps());
  exchange_->restore(state);
  if (velocity_.empty()) return;
  const std::span<const ParameterSlot> slots = shared_.parameters.slots();
  for (size_t s = 0; s < slots.size(); ++s) {
    const std::string name = slots[s].name + kVelocity;
    const TensorType type{DType::kF32, slots[s].shape};
    shared_.parameters.set(s, velocity_.data(), state_entry(state, name, type));
  }
}

void LocalSteps::forget() {
  since_ = 0;
  exchange_->forget();
  forget_what_is_shared();
}

void LocalSteps::forget_what_is_shared() {
  std::ranges::fill(velocity_, 0.0F);
  exchange_->forget_what_is_shared();
}

}  // namespace ndtrain
