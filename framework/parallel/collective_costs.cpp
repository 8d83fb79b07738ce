#include "framework/parallel/collective_costs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "framework/comm/sum_tree.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/collective_fit.h"

namespace ndtrain {
namespace {

using Kind = PlannedOp::Kind;

constexpr int64_t kGrowth = 4;  // of a size from the one before
constexpr int kRepeats = 5;
constexpr double kLeastSeconds = 1e-9;  // what a clock did not see

struct MeasuredKind {
  Kind kind;
  CommOp::Kind comm;
  CostProfile::Collective CostProfile::*member;
};
constexpr MeasuredKind kMeasured[] = {
    {Kind::kReduceScatter, CommOp::Kind::kReduceScatter, &CostProfile::reduce_scatter},
    {Kind::kAllGather, CommOp::Kind::kAllGather, &CostProfile::all_gather},
    {Kind::kAllReduce, CommOp::Kind::kAllReduce, &CostProfile::all_reduce},
    {Kind::kReduce, CommOp::Kind::kReduce, &CostProfile::reduce},
    {Kind::kBroadcast, CommOp::Kind::kBroadcast, &CostProfile::broadcast}};

double median_of(std::vector<double> times) {
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::ranges::nth_element(times, middle);
  return *middle;
}

// Two at least, the largest last.
std::vector<int64_t> sizes_of(const CollectiveCostOptions& options) {
  std::vector<int64_t> sizes = {options.least_elements};
  const int64_t most = std::max(options.most_elements, kGrowth * options.least_elements);
  while (sizes.back() < most) sizes.push_back(std::min(sizes.back() * kGrowth, most));
  return sizes;
}

// Operations as a training's, on zeros.
class Collectives {
 public:
  Collectives(Communicator& communicator, const std::vector<int>& first_shards, Clock& clock,
              const RankGroup& among)
      : communicator_(communicator),
        group_(among.empty() ? communicator.members() : among),
        first_shards_(first_shards),
        clock_(clock) {
    const auto place =
        static_cast<size_t>(std::ranges::find(group_, communicator.rank()) - group_.begin());
    subtrees_ =
        subtrees_of(first_shards[place], first_shards[place + 1], first_shards.back()).size();
  }

  // Of each repetition the slowest rank's.
  std::vector<double> times(Kind kind, int64_t elements) {
    data_.resize(static_cast<size_t>(elements));
    summand_.resize(subtrees_ > 1 ? data_.size() : 0);
    std::vector<double> ours;
    for (int i = 0; i < kRepeats; ++i) ours.push_back(seconds(kind));
    std::string bytes(ours.size() * sizeof(double), '\0');
    std::memcpy(bytes.data(), ours.data(), bytes.size());
    for (const std::string& of_rank : gather(communicator_, bytes, group_)) {
      for (size_t i = 0; i < ours.size(); ++i) {
        double theirs = 0;
        std::memcpy(&theirs, of_rank.data() + i * sizeof theirs, sizeof theirs);
        ours[i] = std::max(ours[i], theirs);
      }
    }
    return ours;
  }

 private:
  double seconds(Kind kind) {
    const auto* const measured = std::ranges::find(kMeasured, kind, &MeasuredKind::kind);
    CommOp op{.kind = measured->comm, .group = group_, .name = "measure"};
    op.data = data_;
    op.root = group_.front();
    if (takes_gradients(kind)) {
      op.leaf_begin = first_shards_;
      op.more_subtrees.assign(subtrees_ - 1, summand_.data());
    }
    barrier(communicator_, group_);
    const auto begun = clock_.monotonic();
    const Communicator::Op id = communicator_.enqueue(std::move(op));
    communicator_.release(id);
    communicator_.wait(id);
    const double took = std::chrono::duration<double>(clock_.monotonic() - begun).count();
    return std::max(took, kLeastSeconds);
  }

  Communicator& communicator_;
  const RankGroup group_;
  const std::vector<int>& first_shards_;
  Clock& clock_;
  size_t subtrees_;
  std::vector<float> data_, summand_;
};

}  // namespace

double measure_collectives(const TimeCollective& time, const CollectiveCostOptions& options,
                           CostProfile& costs) {
  std::map<Kind, std::vector<CollectiveTiming>> timings;
  double spent = 0, expected = 0;
  for (const int64_t elements : sizes_of(options)) {
    if (timings[Kind::kAllReduce].size() >= 2 && spent + expected > options.budget_s) break;
    const double before = spent;
    for (const MeasuredKind& m : kMeasured) {
      std::vector<double> times = time(m.kind, elements);
      spent += std::accumulate(times.begin(), times.end(), 0.0);
      timings[m.kind].push_back(
          {elements * CostProfile::kElementBytes, median_of(std::move(times))});
    }
    expected = (spent - before) * static_cast<double>(kGrowth);
  }
  for (const MeasuredKind& m : kMeasured) costs.*m.member = fit_collective(timings[m.kind]);
  return spent;
}

double measure_collectives(Communicator& communicator, const std::vector<int>& first_shards,
                           const CollectiveCostOptions& options, Clock& clock, CostProfile& costs,
                           const RankGroup& among) {
  Collectives collectives(communicator, first_shards, clock, among);
  return measure_collectives(
      [&](Kind kind, int64_t elements) { return collectives.times(kind, elements); }, options,
      costs);
}

}  // namespace ndtrain
