#include <algorithm>
#include <limits>
#include <numeric>

#include "framework/pipeline/stages/stage.h"

namespace ndtrain {

// best[j] is of the first j nodes in so many stages; begin[s][j] where the last of them begins.
std::vector<int> balanced_stages(std::span<const double> cost, int stages) {
  const size_t n = cost.size();
  if (stages < 1 || static_cast<size_t>(stages) > n) {
    throw Error(stages, " stages of ", n, " nodes: each needs one at least");
  }
  std::vector<double> until(n + 1);
  std::partial_sum(cost.begin(), cost.end(), until.begin() + 1);
  std::vector<double> best = until;
  std::vector<std::vector<size_t>> begin(static_cast<size_t>(stages), std::vector<size_t>(n + 1));
  for (size_t s = 1; s < begin.size(); ++s) {
    std::vector<double> next(n + 1, std::numeric_limits<double>::infinity());
    for (size_t j = s + 1; j <= n; ++j) {
      for (size_t i = s; i < j; ++i) {
        const double heaviest = std::max(best[i], until[j] - until[i]);
        if (heaviest >= next[j]) continue;
        next[j] = heaviest;
        begin[s][j] = i;
      }
    }
    best = std::move(next);
  }
  std::vector<int> stage_of(n);
  size_t end = n;
  for (size_t s = begin.size(); s-- > 0;) {
    for (size_t i = begin[s][end]; i < end; ++i) stage_of[i] = static_cast<int>(s);
    end = begin[s][end];
  }
  return stage_of;
}

}  // namespace ndtrain
