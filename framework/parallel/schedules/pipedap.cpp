#include <algorithm>

#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {
namespace {

enum class Move { kNone, kBehindOwn, kBesideNext };

// The published cost model of one link, and the greedy moves in it; the names are the paper's.
// Layers are 0 to L-1 from the front.
class PipeDap {
 public:
  explicit PipeDap(const CostProfile& costs)
      : L(costs.layers.size()), alpha(costs.all_reduce.alpha_s), B(L), T(L), R(L), F(L) {
    for (size_t l = 0; l < L; ++l) {
      b.push_back(costs.layers[l].backward_s);
      f.push_back(costs.layers[l].forward_s);
      T[l] = costs.all_reduce.seconds(costs.layers[l].elements);
      r.push_back(T[l] / 2);
    }
    a = r;
    for (size_t l = L - 1; l-- > 0;) B[l] = B[l + 1] + b[l + 1];
    begins();
  }

  double step_s() const { return F[L - 1] + f[L - 1]; }

  // What becomes of each layer's all-gather.
  std::vector<Move> moves() {
    std::vector<Move> moves(L, Move::kNone);
    // Idle time of the link before the all-gather, and of computing before its layer, which a move
    // may take; without a layer 2 there is none of the first kind.
    double X = L > 2 ? std::max(0.0, B[0] + b[0] - R[2] - r[2]) : 0;
    double Y = longest_wait();
    for (size_t n = 1; n < L; ++n) {
      moves[n] = move(n, X + Y);
      if (moves[n] != Move::kNone) {
        a[n] = 0;
        begins();
        X = std::max(0.0, X - T[n] / 2);
        Y = std::max(0.0, Y - T[n] / 2);
      }
      if (n + 1 < L) X += R[n] - R[n + 1] - r[n + 1];
      Y -= F[n] - F[n - 1] - f[n - 1];
    }
    return moves;
  }

 private:
  // When each layer's reduce-scatter and its next forward pass begin.
  void begins() {
    R[L - 1] = b[L - 1];
    for (size_t l = L - 1; l-- > 0;) R[l] = std::max(B[l] + b[l], R[l + 1] + r[l + 1]);
    double gathered = R[0] + r[0] + a[0];
    F[0] = gathered;
    for (size_t l = 1; l < L; ++l) {
      gathered += a[l];
      F[l] = std::max(F[l - 1] + f[l - 1], gathered);
    }
  }

  double longest_wait() const {
    double wait = 0, longest = 0;
    for (size_t k = 1; k < L; ++k) {
      wait += a[k] - f[k];
      longest = std::max(longest, wait);
    }
    return longest;
  }

  Move move(size_t n, double S) {
    const double gap = R[n - 1] - R[n] - r[n];
    if (gap > alpha) {
      if (S + alpha <= T[n] / 2) return Move::kNone;
      r[n] = T[n] - alpha;
      return Move::kBehindOwn;
    }
    const double d = n == 1 ? alpha : 2 * alpha;
    if (S - gap + d <= T[n] / 2) return Move::kNone;
    r[n - 1] = T[n - 1] - d;  // as published; what it takes is (T[n-1] + T[n]) / 2 - d
    return Move::kBesideNext;
  }

  const size_t L;
  const double alpha;
  std::vector<double> b, f, B, T, r, a, R, F;
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
