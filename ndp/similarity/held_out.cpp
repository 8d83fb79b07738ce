#include "ndp/similarity/held_out.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

constexpr double kSpread = 0.01;  // of the votes
constexpr int64_t kAskedAtOnce = 64;

struct Voter {
  float similarity;
  size_t example;
  bool operator<(const Voter& o) const {
    return similarity != o.similarity ? similarity > o.similarity : example < o.example;
  }
};

void count_votes(std::span<const Voter> voters, std::span<const ProbeExample> examples,
                 std::span<double> to) {
  double sum = 0;
  for (const Voter& v : voters) {
    // Beside the nearest one's, so that none is too large or all too small.
    const double vote = std::exp((v.similarity - voters.front().similarity) / kVoteTemperature);
    to[examples[v.example].label] += vote;
    sum += vote;
  }
  const auto classes = static_cast<double>(to.size());
  for (double& p : to) {
    p = sum > 0 ? (1 - kSpread) * p / sum + kSpread / classes : 1 / classes;
  }
}

}  // namespace

Probabilities mean_of(const Probabilities& a, const Probabilities& b) {
  if (a.classes != b.classes || a.values.size() != b.values.size()) {
    throw Error("probabilities of ", a.size(), " by ", a.classes, " and of ", b.size(), " by ",
                b.classes, " have no mean");
  }
  Probabilities mean = a;
  std::ranges::transform(a.values, b.values, mean.values.begin(),
                         [](double x, double y) { return (x + y) / 2; });
  return mean;
}

std::vector<size_t> folds_of(std::span<const ProbeExample> examples, size_t classes, size_t folds) {
  // Classes of a few begin in different folds, which are of a size then.
  std::vector<size_t> next(classes), fold_of;
  for (size_t c = 0; c < classes; ++c) next[c] = c % folds;
  fold_of.reserve(examples.size());
  for (const ProbeExample& e : examples) fold_of.push_back(next.at(e.label)++ % folds);
  return fold_of;
}

Probabilities held_out_by_probe(const EmbeddingRows& rows, std::span<const ProbeExample> examples,
                                size_t classes, std::span<const size_t> fold_of, double c,
                                ThreadPool& threads) {
  Probabilities held_out(examples.size(), classes);
  const size_t folds = fold_of.empty() ? 0 : *std::ranges::max_element(fold_of) + 1;
  LinearProbe probe;
  for (size_t fold = 0; fold < folds; ++fold) {
    std::vector<ProbeExample> others;
    for (size_t e = 0; e < examples.size(); ++e) {
      if (fold_of[e] != fold) others.push_back(examples[e]);
    }
    probe = fit_probe(rows, others, classes, c, threads, fold > 0 ? &probe : nullptr);
    for (size_t e = 0; e < examples.size(); ++e) {
      if (fold_of[e] == fold) probe.probabilities(rows.row(examples[e].row), held_out.of(e));
    }
  }
  return held_out;
}

HeldOutProbe choose_probe(const EmbeddingRows& rows, std::span<const ProbeExample> examples,
                          size_t classes, std::span<const size_t> fold_of, ThreadPool& threads) {
  HeldOutProbe best;
  double least = 0;
  for (const double c : {0.001, 0.01, 0.1, 1.0}) {
    Probabilities p = held_out_by_probe(rows, examples, classes, fold_of, c, threads);
    const double loss = mean_loss(examples, p);
    if (best.c > 0 && loss >= least) break;  // convex, near enough: greater ones are no better
    best = {c, std::move(p)};
    least = loss;
  }
  return best;
}

double mean_loss(std::span<const ProbeExample> examples, const Probabilities& held_out) {
  constexpr double kLeast = 1e-9;
  double sum = 0;
  for (size_t e = 0; e < examples.size(); ++e) {
    sum -= std::log(std::max(held_out.of(e)[examples[e].label], kLeast));
  }
  return examples.empty() ? 0 : sum / static_cast<double>(examples.size());
}

double accuracy(std::span<const ProbeExample> examples, const Probabilities& held_out) {
  size_t right = 0;
  for (size_t e = 0; e < examples.size(); ++e) {
    const std::span<const double> p = held_out.of(e);
    const auto best = static_cast<size_t>(std::ranges::max_element(p) - p.begin());
    if (best == examples[e].label) ++right;
  }
  return examples.empty() ? 0 : static_cast<double>(right) / static_cast<double>(examples.size());
}

Probabilities by_neighbours(const EmbeddingRows& rows, std::span<const size_t> asked,
                            std::span<const ProbeExample> examples, size_t classes,
                            ThreadPool& threads) {
  if (examples.empty()) throw Error("nearest neighbours need an example at least");
  Probabilities all(asked.size(), classes);
  const auto n = static_cast<int64_t>(asked.size());
  threads.parallel_for(n, kAskedAtOnce, [&](int64_t begin, int64_t end) {
    std::vector<Voter> voters;
    for (int64_t i = begin; i < end; ++i) {
      const size_t row = asked[static_cast<size_t>(i)];
      voters.clear();
      for (size_t e = 0; e < examples.size(); ++e) {
        if (examples[e].row == row) continue;
        voters.push_back({product(rows.row(row), rows.row(examples[e].row)), e});
      }
      const size_t k = std::min(kVoters, voters.size());
      std::partial_sort(voters.begin(), voters.begin() + static_cast<std::ptrdiff_t>(k),
                        voters.end());
      voters.resize(k);
      count_votes(voters, examples, all.of(static_cast<size_t>(i)));
    }
  });
  return all;
}

}  // namespace ndtrain::ndp
