#include "framework/sparse/sync/rate_control.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <ostream>
#include <span>
#include <utility>

#include "framework/core/error.h"
#include "framework/parallel/between_ranks.h"

namespace ndtrain {
namespace {

// As floats; those of a step that there was not are zeros.
constexpr size_t kTold = 7;

void write(const Telemetry& t, std::span<float> to) {
  const double all[kTold] = {
      static_cast<double>(t.batch), t.send_mbps,        t.receive_mbps, t.forward_ms, t.backward_ms,
      t.backward_forward_gap_ms,    t.in_forward_gap_ms};
  std::ranges::transform(all, to.begin(), [](double x) { return static_cast<float>(x); });
}

Telemetry read(std::span<const float> from) {
  return {.batch = static_cast<int64_t>(from[0]),
          .send_mbps = from[1],
          .receive_mbps = from[2],
          .forward_ms = from[3],
          .backward_ms = from[4],
          .backward_forward_gap_ms = from[5],
          .in_forward_gap_ms = from[6]};
}

// `rows` for so many, as equal as can be.
void share_out(int64_t rows, int among, std::vector<int64_t>& to) {
  for (int i = 0; i < among; ++i) to.push_back(rows / among + (i < rows % among ? 1 : 0));
}

}  // namespace

RateControl::RateControl(const RateControlOptions& options, Communicator& communicator,
                         std::vector<int> first_shards, int64_t room, SelectionSizes sizes,
                         double drop, uint64_t seed, int sites)
    : communicator_(communicator),
      members_(communicator.members()),
      first_shards_(std::move(first_shards)),
      place_(static_cast<size_t>(std::ranges::find(members_, communicator.rank()) -
                                 members_.begin())) {
  std::vector<int64_t> of_shards, largest;
  share_out(options.batch, first_shards_.back(), of_shards);
  RateControllerOptions control{.model = options.model,
                                .sites = sites,
                                .first_drop = drop,
                                .sizes = std::move(sizes),
                                .seed = seed,
                                .dry_run = options.dry_run};
  for (size_t r = 0; r < members_.size(); ++r) {
    int64_t rows = 0;
    for (int v = first_shards_[r]; v < first_shards_[r + 1]; ++v) {
      rows += of_shards[static_cast<size_t>(v)];
    }
    control.first_batch.push_back(rows);
  }
  now_ = {.from_step = 0, .batch = control.first_batch, .drop = drop};
  schedule_ = std::make_unique<RateSchedule>(now_);
  if (sites == 1) return;
  // Of more than the profile knows of, nobody knows what they cost.
  const int64_t most = options.largest_batch > 0 ? options.largest_batch : room;
  const std::string ours = std::to_string(std::min(most, options.profile.largest_batch));
  for (const std::string& of_rank : ndtrain::gather(communicator_, ours)) {
    const size_t r = control.largest_batch.size();
    control.largest_batch.push_back(
        std::max<int64_t>(std::strtoll(of_rank.c_str(), nullptr, 10), control.first_batch.at(r)));
  }
  controller_ = std::make_unique<RateController>(options.profile, std::move(control));
  told_.resize(kTold * members_.size());
}

// The last step of an epoch has what is left, shared out as a whole one.
std::vector<int64_t> RateControl::next_sizes(int64_t left) {
  before_ = std::exchange(now_, schedule_->begin_step(++step_));
  rows_before_ = rows_;
  const int64_t whole = std::accumulate(now_.batch.begin(), now_.batch.end(), int64_t{0});
  const int64_t rows = std::min(left, whole);
  std::vector<int64_t> sizes;
  int64_t before = 0;  // of a whole step, by other ranks
  for (size_t r = 0; r < members_.size(); ++r) {
    const int64_t begin = before * rows / whole;
    before += now_.batch[r];
    const int64_t of_rank = before * rows / whole - begin;
    if (r == place_) rows_ = of_rank;
    share_out(of_rank, first_shards_[r + 1] - first_shards_[r], sizes);
  }
  return sizes;
}

void RateControl::enqueue() {
  if (!controller_) return;
  CommOp op{.kind = CommOp::Kind::kAllGather, .group = members_, .name = "telemetry"};
  op.data = told_;
  for (size_t r = 0; r <= members_.size(); ++r) {
    op.part_begin.push_back(static_cast<int64_t>(kTold * r));
  }
  op_ = communicator_.enqueue(std::move(op));
}

void RateControl::tell(Telemetry last) {
  if (!controller_) return;
  last.batch = rows_before_;
  write(last, std::span(told_).subspan(kTold * place_, kTold));
  communicator_.release(op_);
}

void RateControl::take() {
  if (!controller_) return;
  communicator_.wait(op_);
  const int64_t step = step_ - 1;
  if (step < 0) return;
  for (size_t r = 0; r < members_.size(); ++r) {
    Telemetry t = read(std::span<const float>(told_).subspan(kTold * r, kTold));
    t.rank = static_cast<int>(r);
    t.step = step;
    t.drop = before_.drop;
    const auto next = controller_->tell(t);
    if (!next) continue;
    schedule_->add(*next);
    ++decisions_;
  }
}

}  // namespace ndtrain
