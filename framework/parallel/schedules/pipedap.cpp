#include <algorithm>

#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {
namespace {

enum class Move { kNone, kBehindOwn, kBesideNext };

// The published cost model of one link, and the greedy moves in it. The paper's letters are in
// parentheses; layers are 0 to L-1 from the front.
class PipeDap {
 public:
  explicit PipeDap(const CostProfile& costs)
      : n_(costs.layers.size()),
        alpha_(costs.all_reduce.alpha_s),
        backward_begins_(n_),
        scatter_begins_(n_),
        forward_begins_(n_) {
    for (const CostProfile::Layer& layer : costs.layers) {
      backward_.push_back(layer.backward_s);
      forward_.push_back(layer.forward_s);
      all_reduce_.push_back(costs.all_reduce.seconds(layer.elements));
      scatter_.push_back(all_reduce_.back() / 2);
    }
    gather_ = scatter_;
    for (size_t l = n_ - 1; l-- > 0;) {
      backward_begins_[l] = backward_begins_[l + 1] + backward_[l + 1];
    }
    place();
  }

  double step_s() const { return forward_begins_[n_ - 1] + forward_[n_ - 1]; }

  // What becomes of each layer's all-gather.
  std::vector<Move> moves() {
    std::vector<Move> moves(n_, Move::kNone);
    // Time that moves may still use up, before the end of the backward pass (X) and in the forward
    // pass (Y). There is none of the first kind without a layer 2, from which the paper counts.
    double link_idles =
        n_ > 2 ? std::max(0.0, gradient_at(0) - scatter_begins_[2] - scatter_[2]) : 0;
    double forward_waits = longest_wait();
    for (size_t l = 1; l < n_; ++l) {
      moves[l] = move(l, link_idles + forward_waits);
      if (moves[l] != Move::kNone) {
        gather_[l] = 0;
        place();
        link_idles = std::max(0.0, link_idles - all_reduce_[l] / 2);
        forward_waits = std::max(0.0, forward_waits - all_reduce_[l] / 2);
      }
      if (l + 1 < n_) link_idles += scatter_begins_[l] - scatter_begins_[l + 1] - scatter_[l + 1];
      forward_waits -= forward_begins_[l] - forward_begins_[l - 1] - forward_[l - 1];
    }
    return moves;
  }

 private:
  double gradient_at(size_t l) const { return backward_begins_[l] + backward_[l]; }

  // When each layer's reduce-scatter and its next forward pass begin.
  void place() {
    scatter_begins_[n_ - 1] = backward_[n_ - 1];
    for (size_t l = n_ - 1; l-- > 0;) {
      scatter_begins_[l] = std::max(gradient_at(l), scatter_begins_[l + 1] + scatter_[l + 1]);
    }
    double gathered = scatter_begins_[0] + scatter_[0] + gather_[0];
    forward_begins_[0] = gathered;
    for (size_t l = 1; l < n_; ++l) {
      gathered += gather_[l];
      forward_begins_[l] = std::max(forward_begins_[l - 1] + forward_[l - 1], gathered);
    }
  }

  double longest_wait() const {
    double wait = 0, longest = 0;
    for (size_t l = 1; l < n_; ++l) {
      wait += gather_[l] - forward_[l];
      longest = std::max(longest, wait);
    }
    return longest;
  }

  // `spare`: S.
  Move move(size_t l, double spare) {
    const double gap = scatter_begins_[l - 1] - scatter_begins_[l] - scatter_[l];  // g
    if (gap > alpha_) {
      if (spare + alpha_ <= all_reduce_[l] / 2) return Move::kNone;
      scatter_[l] = all_reduce_[l] - alpha_;
      return Move::kBehindOwn;
    }
    const double saved = l == 1 ? alpha_ : 2 * alpha_;  // d
    if (spare - gap + saved <= all_reduce_[l] / 2) return Move::kNone;
    // As published; what is carried there is half of the one and half of the other.
    scatter_[l - 1] = all_reduce_[l - 1] - saved;
    return Move::kBesideNext;
  }

  const size_t n_;                          // (L)
  const double alpha_;                      // latency of an all-reduce
  std::vector<double> backward_, forward_;  // (b, f) seconds of layers
  std::vector<double> all_reduce_;          // (T)
  std::vector<double> scatter_, gather_;    // (r, a) its halves, as far as they are not moved
  std::vector<double> backward_begins_;     // (B)
  std::vector<double> scatter_begins_;      // (R)
  std::vector<double> forward_begins_;      // (F)
};

}  // namespace

CommPlan pipedap_plan(const CostProfile& costs, const ScheduleOptions&) {
  using Kind = PlannedOp::Kind;
  const std::vector<Move> moves = PipeDap(costs).moves();
  CommPlan plan{.buckets = layer_buckets(costs)};
  for (size_t l = moves.size(); l-- > 0;) {
    const int layer = static_cast<int>(l);
    plan.ops.push_back({Kind::kReduceScatter, layer});
    if (l + 1 < moves.size() && moves[l + 1] == Move::kBesideNext) {
      plan.ops.push_back({Kind::kAllGather, layer + 1, true});
    }
    if (moves[l] == Move::kBehindOwn) plan.ops.push_back({Kind::kAllGather, layer});
  }
  for (size_t l = 0; l < moves.size(); ++l) {
    if (moves[l] == Move::kNone) plan.ops.push_back({Kind::kAllGather, static_cast<int>(l)});
  }
  return plan;
}

PublishedTimes published_times(const CostProfile& costs) {
  PipeDap model(costs);
  const double dear_s = model.step_s();
  model.moves();
  return {.pipedap_s = model.step_s(), .dear_s = dear_s};
}

}  // namespace ndtrain
