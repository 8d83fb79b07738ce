#include "framework/parallel/exchange_sync.h"

#include <algorithm>
#include <utility>

namespace ndtrain {
namespace {

constexpr int64_t kReportFloats = 4;  // of a ShardReport

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
                           std::vector<int> first_shards)
    : shared_(shared),
      communicator_(communicator),
      first_shards_(std::move(first_shards)),
      group_(communicator.members()),
      place_(static_cast<size_t>(std::ranges::find(group_, communicator.rank()) - group_.begin())) {
  check(plan);
  reports_.resize(static_cast<size_t>(report_begin(group_.size())));
  follow(std::move(plan));
}

void ExchangeSync::change_plan(CommPlan plan) {
  check(plan);
  flush();
  follow(std::move(plan));
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
}

// Of a rank's part of the reports.
int64_t ExchangeSync::report_begin(size_t rank) const {
  return first_shards_[rank] * kReportFloats + static_cast<int64_t>(rank);
}

void ExchangeSync::check(const CommPlan& plan) const {
  validate(plan, shared_.parameters.size());
  if (plan.shard_optimizer) throw Error("a sharded optimizer needs another GradientSync");
  if (first_shards_.size() != group_.size() + 1) {
    throw Error("shards of ", std::ssize(first_shards_) - 1, " ranks, but there are ",
                group_.size());
  }
}

CommOp ExchangeSync::sum_of(std::string name, CommOp::Kind kind, std::span<float* const> sums,
                            ParameterRange range) const {
  CommOp op{.kind = kind, .group = group_, .name = std::move(name)};
  op.data = {sums[0] + range.begin, static_cast<size_t>(range.size())};
  op.leaf_begin = first_shards_;
  for (const float* sum : sums.subspan(1)) op.more_subtrees.push_back(sum + range.begin);
  return op;
}

CommOp ExchangeSync::op_for(const PlannedOp& planned) const {
  const ParameterRange range = plan_.buckets[static_cast<size_t>(planned.bucket)];
  const std::string name = symbol(planned.kind) + std::to_string(planned.bucket);
  if (takes_gradients(planned.kind)) {
    return sum_of(name, kind_of(planned.kind), shared_.gradients.sums(), range);
  }
  CommOp op{.kind = kind_of(planned.kind), .group = group_, .name = name};
  op.data = {shared_.gradients.sums()[0] + range.begin, static_cast<size_t>(range.size())};
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
  for (const std::vector<PlannedOp>& call : calls_of(plan_)) {
    const auto is_late = [this](const PlannedOp& op) { return begins_late(op); };
    if (!reported && std::ranges::any_of(call, is_late)) {
      enqueue_reports();
      reported = true;
    }
    enqueue(call);
  }
  if (!reported) enqueue_reports();
}

// It needs the gradients that are there last, or the next step.
bool ExchangeSync::begins_late(const PlannedOp& op) const {
  if (!takes_gradients(op.kind)) return plan_.prefetch > 0;
  const auto bucket = static_cast<size_t>(op.bucket);
  return bucket >= buckets_of_.back().begin && bucket < buckets_of_.back().end;
}

void ExchangeSync::enqueue(const std::vector<PlannedOp>& call) {
  std::vector<CommOp> ops;
  for (const PlannedOp& op : call) ops.push_back(op_for(op));
  const std::vector<Op> queued = communicator_.enqueue_together(std::move(ops));
  for (size_t i = 0; i < call.size(); ++i) {
    Exchange& e = now_.buckets[static_cast<size_t>(call[i].bucket)];
    if (takes_gradients(call[i].kind)) e.sum = queued[i];
    if (completes(call[i].kind)) e.last = queued[i];
    if (takes_gradients(call[i].kind)) {
      if (e.missing == 0) communicator_.release(queued[i]);  // a bucket of no parameters
      continue;
    }
    // Operations follow one another, so the sum it needs is there when its turn comes.
    e.released = plan_.prefetch == 0;
    if (e.released) communicator_.release(queued[i]);
  }
}

void ExchangeSync::enqueue_reports() {
  if (shared_.statistics) {
    statistics_ =
        communicator_.enqueue(sum_of("statistics", CommOp::Kind::kAllReduce,
                                     shared_.statistics->sums(), {0, shared_.statistics->size()}));
  }
  CommOp op{.kind = CommOp::Kind::kAllGather, .group = group_, .name = "reports"};
  op.data = reports_;
  for (size_t r = 0; r <= group_.size(); ++r) op.part_begin.push_back(report_begin(r));
  report_ = communicator_.enqueue(std::move(op));
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

void ExchangeSync::update(size_t bucket) {
  if (before_.buckets.empty() || before_.buckets[bucket].updated) return;
  release_up_to(bucket + static_cast<size_t>(plan_.prefetch));
  communicator_.wait(before_.buckets[bucket].last);
  const ParameterRange range = plan_.buckets[bucket];
  before_.buckets[bucket].updated = true;  // what is under way is not given up from here on
  if (!before_.applied || range.size() == 0) return;
  if (undo_) undo_->keep(range, before_.hyper.step);
  float* const values = shared_.parameters.values(range.begin);
  shared_.optimizer.apply(range, before_.hyper, shared_.parameters.gradients(range.begin), values,
                          values);
}

void ExchangeSync::gradient_ready(size_t slot, ndt_stream* /*stream*/) {
  for (size_t b = buckets_of_[slot].begin; b < buckets_of_[slot].end; ++b) {
    if (--now_.buckets[b].missing == 0) communicator_.release(now_.buckets[b].sum);
  }
}

void ExchangeSync::add_up_statistics() {
  communicator_.release(statistics_);
  communicator_.wait(statistics_);
}

void ExchangeSync::share(std::span<ShardReport> reports) {
  // Each rank's shards, then its word on stopping.
  const auto part = [&](size_t rank) {
    const auto begin = static_cast<size_t>(report_begin(rank));
    return std::span(reports_).subspan(begin, static_cast<size_t>(report_begin(rank + 1)) - begin);
  };
  const auto of_rank = [&](size_t rank) {
    const auto begin = static_cast<size_t>(first_shards_[rank]);
    return reports.subspan(begin, static_cast<size_t>(first_shards_[rank + 1]) - begin);
  };
  auto to = part(place_).begin();
  for (const ShardReport& r : of_rank(place_)) {
    for (const float x : {r.loss, r.hits, r.finite, r.sound}) *to++ = x;
  }
  *to = stop_ ? 1 : 0;
  communicator_.release(report_);
  communicator_.wait(report_);
  for (size_t rank = 0; rank < group_.size(); ++rank) {
    const float* from = part(rank).data();
    for (ShardReport& r : of_rank(rank)) {
      r = {.loss = from[0], .hits = from[1], .finite = from[2], .sound = from[3]};
      from += kReportFloats;
    }
    stopped_ |= *from != 0;
  }
}

void ExchangeSync::backward_done() { end_step(true); }

void ExchangeSync::skip() { end_step(false); }

void ExchangeSync::end_step(bool applied) {
  before_ = std::move(now_);
  before_.applied = applied;
  ++ended_;
  if (!plan_.update_late) flush();
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
