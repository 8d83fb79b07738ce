#include "framework/parallel/step_reports.h"

#include <algorithm>
#include <utility>

namespace ndtrain {
namespace {

constexpr int64_t kReportFloats = 5;  // of a ShardReport

}  // namespace

CommOp sum_op(std::string name, CommOp::Kind kind, const RankGroup& group,
              const std::vector<int>& first_shards, std::span<float* const> sums,
              ParameterRange range) {
  CommOp op{.kind = kind, .group = group, .name = std::move(name)};
  op.data = {sums[0] + range.begin, static_cast<size_t>(range.size())};
  op.leaf_begin = first_shards;
  for (const float* sum : sums.subspan(1)) op.more_subtrees.push_back(sum + range.begin);
  return op;
}

StepReports::StepReports(const Trainer::Shared& shared, Communicator& communicator, RankGroup group,
                         std::vector<int> first_shards)
    : shared_(shared),
      communicator_(communicator),
      group_(std::move(group)),
      first_shards_(std::move(first_shards)),
      place_(static_cast<size_t>(std::ranges::find(group_, communicator.rank()) - group_.begin())) {
  if (first_shards_.size() != group_.size() + 1) {
    throw Error("shards of ", std::ssize(first_shards_) - 1, " ranks, but there are ",
                group_.size());
  }
  reports_.resize(static_cast<size_t>(begin_of(group_.size())));
}

// Of a rank's part of the reports.
int64_t StepReports::begin_of(size_t rank) const {
  return first_shards_[rank] * kReportFloats + static_cast<int64_t>(rank);
}

void StepReports::enqueue() {
  if (shared_.statistics) {
    CommOp sum = sum_op("statistics", CommOp::Kind::kAllReduce, group_, first_shards_,
                        shared_.statistics->sums(), {0, shared_.statistics->size()});
    sum.native = !shared_.device.shares_host_memory();
    statistics_ = communicator_.enqueue(std::move(sum));
  }
  CommOp op{.kind = CommOp::Kind::kAllGather, .group = group_, .name = "reports"};
  op.data = reports_;
  for (size_t r = 0; r <= group_.size(); ++r) op.part_begin.push_back(begin_of(r));
  report_ = communicator_.enqueue(std::move(op));
}

void StepReports::add_up_statistics() {
  communicator_.release(statistics_);
  communicator_.wait(statistics_);
}

void StepReports::share(std::span<ShardReport> reports, uint8_t flags) {
  const auto part = [&](size_t rank) {
    const auto begin = static_cast<size_t>(begin_of(rank));
    return std::span(reports_).subspan(begin, static_cast<size_t>(begin_of(rank + 1)) - begin);
  };
  const auto of_rank = [&](size_t rank) {
    const auto begin = static_cast<size_t>(first_shards_[rank]);
    return reports.subspan(begin, static_cast<size_t>(first_shards_[rank + 1]) - begin);
  };
  auto to = part(place_).begin();
  for (const ShardReport& r : of_rank(place_)) {
    for (const float x : {r.loss, r.hits, r.top5, r.finite, r.sound}) *to++ = x;
  }
  *to = flags;
  communicator_.release(report_);
  communicator_.wait(report_);
  flags_ = 0;
  for (size_t rank = 0; rank < group_.size(); ++rank) {
    const float* from = part(rank).data();
    for (ShardReport& r : of_rank(rank)) {
      r = {.loss = from[0], .hits = from[1], .top5 = from[2], .finite = from[3], .sound = from[4]};
      from += kReportFloats;
    }
    flags_ |= static_cast<uint8_t>(*from);
  }
}

}  // namespace ndtrain
