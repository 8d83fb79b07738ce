#include "framework/parallel/exchange_sync.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/comm/sum_tree.h"
#include "framework/core/clock.h"
#include "framework/parallel/gather_slices.h"
#include "framework/parallel/slices.h"

namespace ndtrain {
namespace {

CommOp::Kind kind_of(PlannedOp::Kind kind) {
  switch (kind) {
    case PlannedOp::Kind::kReduceScatter:
      return CommOp::Kind::kReduceScatter;
    case PlannedOp::Kind::kAllGather:
      return CommOp::Kind::kAllGather;
    case PlannedOp::Kind::kReduce:
      return CommOp::Kind::kReduce;
    case PlannedOp::Kind::kBroadcast:
      return CommOp::Kind::kBroadcast;
    default:
      return CommOp::Kind::kAllReduce;
  }
}

// One call each.
std::vector<std::vector<PlannedOp>> calls_of(const CommPlan& plan) {
  std::vector<std::vector<PlannedOp>> calls;
  for (const PlannedOp& op : plan.ops) {
    if (!op.with_previous) calls.emplace_back();
    calls.back().push_back(op);
  }
  return calls;
}

}  // namespace

ExchangeSync::ExchangeSync(const Trainer::Shared& shared, Communicator& communicator, CommPlan plan,
                           std::vector<int> first_shards, const ExchangeOptions& options)
    : shared_(shared),
      communicator_(communicator),
      first_shards_(std::move(first_shards)),
      options_(options),
      group_(options.group.empty() ? communicator.members() : options.group),
      place_(static_cast<size_t>(std::ranges::find(group_, communicator.rank()) - group_.begin())),
      kept_{{0, shared.parameters.size()}},
      reports_(shared, communicator, group_, first_shards_) {
  if (options_.native && !communicator_.has_collectives()) {
    throw Error("ranks talk by something that has no collectives of its own");
  }
  check_memory();
  follow(as_followed(std::move(plan)));
}

void ExchangeSync::check_memory() const {
  const bool library_there = options_.native && communicator_.collects_on_device();
  if (on_device() && !library_there) {
    throw Error(
        "ranks exchange gradients in memory of the host, which is not that of this device; between "
        "GPUs NCCL does (--comm nccl --collectives native)");
  }
  if (!on_device() && library_there) {
    throw Error("the library that ranks talk by adds up in memory of a device, but backend ",
                shared_.device.backend().name(), " computes in memory of the host");
  }
  for (size_t r = 0; on_device() && r < group_.size(); ++r) {
    const int begin = first_shards_[r], end = first_shards_[r + 1];
    if (subtrees_of(begin, end, first_shards_.back()).size() == 1) continue;
    throw Error("rank ", r, " has shards ", begin, " to ", end - 1, " of ", first_shards_.back(),
                ", which are several sums: on a device it has one; give as many --shards as there "
                "are ranks, or each rank the same power of two");
  }
}

void ExchangeSync::change_plan(CommPlan plan) {
  plan = as_followed(std::move(plan));
  flush();
  follow(std::move(plan));
}

CommPlan ExchangeSync::as_followed(CommPlan plan) const {
  if (options_.shard_optimizer) plan = with_sharded_optimizer(std::move(plan));
  validate(plan, shared_.parameters.size());
  if (clips()) NormExchange(communicator_, group_, plan, shared_.parameters.size());
  // A gather that is left until the next step would hold up the sums that the norm waits for.
  const bool last = plan.shard_optimizer || (clips() && plan.prefetch > 0);
  return last ? gathers_behind_sums(std::move(plan)) : plan;
}

void ExchangeSync::follow(CommPlan plan) {
  plan_ = std::move(plan);
  before_ = {};
  buckets_of_.clear();
  for (const ParameterSlot& slot : shared_.parameters.slots()) {
    const auto outside = [&](const ParameterRange& b) {
      return b.end <= slot.range.begin || b.begin >= slot.range.end;
    };
    const auto first = std::ranges::find_if_not(plan_.buckets, outside);
    const auto end = std::find_if(first, plan_.buckets.end(), outside);
    buckets_of_.push_back({static_cast<size_t>(first - plan_.buckets.begin()),
                           static_cast<size_t>(end - plan_.buckets.begin())});
  }
  if (clips()) norm_.emplace(communicator_, group_, plan_, shared_.parameters.size());
  while (on_device() && marks_.size() < plan_.buckets.size()) {
    marks_.push_back(std::make_unique<StreamMark>(shared_.device));
  }
  keep_moments();
}

// Those of the slices that this rank updates; where a plan has others, they change hands.
void ExchangeSync::keep_moments() {
  std::vector<ParameterRange> kept = {{0, shared_.parameters.size()}};
  Optimizer::Complete complete;
  if (plan_.shard_optimizer) {
    kept = slices_of_rank(plan_, static_cast<int>(place_), ranks());
    complete = [this, plan = plan_](std::span<float> moment) {
      gather_slices(communicator_, group_, plan, moment);
    };
  }
  if (kept == kept_) return;
  Optimizer& optimizer = shared_.optimizer;
  const int64_t steps = optimizer.steps();
  std::map<std::string, Tensor> moments;
  if (steps > 0) moments = optimizer.state();
  optimizer.keep_only(kept, std::move(complete));
  if (steps > 0) optimizer.restore(moments, steps);
  kept_ = std::move(kept);
}

CommOp ExchangeSync::op_for(PlannedOp::Kind kind, int bucket) const {
  const ParameterRange range = plan_.buckets[static_cast<size_t>(bucket)];
  const std::string name = symbol(kind) + std::to_string(bucket);
  const bool parameters = !takes_gradients(kind) && plan_.shard_optimizer;
  CommOp op;
  if (takes_gradients(kind)) {
    op = sum_op(name, kind_of(kind), group_, first_shards_, shared_.gradients.sums(), range);
  } else {
    op = {.kind = kind_of(kind), .group = group_, .name = name};
    float* const from = parameters ? shared_.parameters.values() : shared_.gradients.sums()[0];
    op.data = {from + range.begin, static_cast<size_t>(range.size())};
  }
  if (kind == PlannedOp::Kind::kReduceScatter || kind == PlannedOp::Kind::kAllGather) {
    op.part_begin = slice_begins(range, ranks());
  }
  op.root = group_.front();
  op.wire = parameters ? DType::kF32 : options_.wire;
  const bool sums = takes_gradients(kind);
  op.native = options_.native && (sums || op.kind == CommOp::Kind::kAllGather || on_device());
  if (sums && on_device()) op.after = marks_[static_cast<size_t>(bucket)]->native();
  return op;
}

void ExchangeSync::begin(const HyperParameters& hyper) {
  now_ = {.hyper = hyper, .buckets = std::vector<Exchange>(plan_.buckets.size())};
  for (const Span& s : buckets_of_) {
    for (size_t b = s.begin; b < s.end; ++b) ++now_.buckets[b].missing;
  }
  // Everybody waits for the reports when the backward pass is done: they go ahead of all that
  // cannot begin before, and of no more, or what may run into the next step would be waited for.
  bool reported = false;
  const auto is_sum = [](const PlannedOp& op) { return takes_gradients(op.kind); };
  auto sums_left = std::ranges::count_if(plan_.ops, is_sum);
  for (const std::vector<PlannedOp>& call : calls_of(plan_)) {
    const auto is_late = [this](const PlannedOp& op) { return begins_late(op); };
    if (!reported && std::ranges::any_of(call, is_late)) {
      reports_.enqueue();
      reported = true;
    }
    const bool decided = sums_left == 0 && (norm_ || plan_.shard_optimizer);
    enqueue(call, plan_.prefetch == 0 && !decided);
    const auto sums = std::ranges::count_if(call, is_sum);
    sums_left -= sums;
    if (norm_ && sums > 0 && sums_left == 0) norm_->enqueue();
  }
  if (!reported) reports_.enqueue();
}

// It needs the gradients that are there last, or the next step.
bool ExchangeSync::begins_late(const PlannedOp& op) const {
  if (!takes_gradients(op.kind)) return plan_.prefetch > 0;
  const auto bucket = static_cast<size_t>(op.bucket);
  return bucket >= buckets_of_.back().begin && bucket < buckets_of_.back().end;
}

// `gathers_follow`: second halves wait for no more than their bucket's gradients.
void ExchangeSync::enqueue(const std::vector<PlannedOp>& call, bool gathers_follow) {
  std::vector<CommOp> ops;
  std::vector<PlannedOp> carried;
  for (const PlannedOp& op : call) {
    const std::optional<PlannedOp::Kind> kind = carried_out(op.kind, options_.only);
    if (!kind) continue;
    ops.push_back(op_for(*kind, op.bucket));
    carried.push_back(op);
  }
  if (carried.empty()) return;
  const std::vector<Op> queued = communicator_.enqueue_together(std::move(ops));
  for (size_t i = 0; i < carried.size(); ++i) {
    Exchange& e = now_.buckets[static_cast<size_t>(carried[i].bucket)];
    e.last = queued[i];
    if (takes_gradients(carried[i].kind)) {
      e.sum = queued[i];
      if (e.missing == 0) communicator_.release(e.sum);  // a bucket of no parameters
      continue;
    }
    e.follows = gathers_follow;
    // Operations follow one another, so the sum it needs is there when its turn comes.
    if (e.follows && (e.sum != 0 || e.missing == 0)) {
      e.released = true;
      communicator_.release(e.last);
    }
  }
}

void ExchangeSync::before_read(size_t slot, ndt_stream* /*stream*/) {
  for (size_t b = buckets_of_[slot].begin; b < buckets_of_[slot].end; ++b) update(b);
}

// Of the step before: the gathers that were left until the forward pass comes this near.
void ExchangeSync::release_up_to(size_t bucket) {
  for (size_t b = 0; b < before_.buckets.size() && b <= bucket; ++b) {
    Exchange& e = before_.buckets[b];
    if (e.last != e.sum && !std::exchange(e.released, true)) communicator_.release(e.last);
  }
}

void ExchangeSync::gradients_are_there(Exchange& e) {
  if (e.sum != 0) {
    communicator_.release(e.sum);
  } else if (e.follows && !std::exchange(e.released, true)) {
    communicator_.release(e.last);
  }
}

void ExchangeSync::update(size_t bucket) {
  if (before_.buckets.empty() || before_.buckets[bucket].updated) return;
  release_up_to(bucket + static_cast<size_t>(plan_.prefetch));
  wait_for(before_.buckets[bucket].last);
  const ParameterRange range = plan_.buckets[bucket];
  before_.buckets[bucket].updated = true;  // what is under way is not given up from here on
  if (!before_.applied || plan_.shard_optimizer || range.size() == 0) return;
  if (undo_) undo_->keep(range, before_.hyper.step);
  float* const gradients = shared_.parameters.gradients(range.begin);
  if (options_.apply) return options_.apply(range, before_.hyper, gradients);
  float* const values = shared_.parameters.values(range.begin);
  shared_.optimizer.apply(range, before_.hyper, gradients, values, values);
}

void ExchangeSync::gradient_ready(size_t slot, ndt_stream* stream) {
  for (size_t b = buckets_of_[slot].begin; b < buckets_of_[slot].end; ++b) {
    if (--now_.buckets[b].missing > 0) continue;
    if (on_device()) marks_[b]->set(stream);
    gradients_are_there(now_.buckets[b]);
  }
}

void ExchangeSync::share(std::span<ShardReport> reports) {
  reports_.share(reports, stop_ ? 1 : 0);
  stopped_ |= reports_.flags() != 0;
}

void ExchangeSync::backward_done() {
  if (norm_) {
    const double norm = norm_of_sums();
    if (!std::isfinite(norm)) end_step(false);
    now_.hyper.gradient_scale = clip_scale(norm, shared_.optimizer.config().clip_norm);
  }
  end_step(true);
}

// Waits also for what is in front of it, and may still write there.
double ExchangeSync::norm_of_sums() {
  const std::chrono::nanoseconds begun = system_clock().monotonic();
  for (const Exchange& e : now_.buckets) {
    wait_for(e.sum);
    if (e.released) wait_for(e.last);
  }
  const double norm = norm_->norm(shared_.parameters.gradients_on_host(gradients_on_host_));
  clip_exposed_s_ += std::chrono::duration<double>(system_clock().monotonic() - begun).count();
  return norm;
}

void ExchangeSync::skip() {
  if (norm_) norm_->leave_out();
  end_step(false);
}

void ExchangeSync::end_step(bool applied) {
  before_ = std::move(now_);
  before_.applied = applied;
  ++ended_;
  if (plan_.shard_optimizer) update_slices();
  if (plan_.prefetch == 0) release_up_to(before_.buckets.size());
  if (!plan_.update_late) flush();
}

void ExchangeSync::update_slices() {
  for (size_t b = before_.buckets.size(); b-- > 0;) {
    wait_for(before_.buckets[b].sum);
    const ParameterRange slice = slice_of(plan_, b, static_cast<int>(place_), ranks());
    if (!before_.applied || slice.size() == 0) continue;
    float* const values = shared_.parameters.values(slice.begin);
    shared_.optimizer.apply(slice, before_.hyper, shared_.parameters.gradients(slice.begin), values,
                            values);
  }
}

void ExchangeSync::wait_for(Op op) {
  if (op != 0) communicator_.wait(op);
}

int64_t ExchangeSync::completed() const {
  for (const Span& s : buckets_of_) {
    for (size_t b = s.begin; b < s.end && b < before_.buckets.size(); ++b) {
      if (!before_.buckets[b].updated) return ended_ - 1;
    }
  }
  return ended_;
}

void ExchangeSync::flush() {
  for (size_t b = 0; b < before_.buckets.size(); ++b) update(b);
}

}  // namespace ndtrain
