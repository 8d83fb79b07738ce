#include "framework/sparse/sync/link_rate.h"

#include <algorithm>

namespace ndtrain {
namespace {

using std::chrono::nanoseconds;

// Of windows that begin when a piece was done: those behind it took from then on.
double best_of(const std::vector<LinkRate::Piece>& pieces) {
  const nanoseconds window =
      std::min<nanoseconds>(pieces.back().done - pieces.front().done, LinkRate::kWindow);
  if (window <= nanoseconds(0)) return 0;
  double best = 0;
  int64_t bytes = 0;  // of those behind `first`, as far as `last`
  size_t last = 0;
  for (size_t first = 0; first < pieces.size(); ++first) {
    if (first > 0) bytes -= pieces[first].bytes;
    while (last + 1 < pieces.size() && pieces[last].done - pieces[first].done < window) {
      bytes += pieces[++last].bytes;
    }
    const nanoseconds took = pieces[last].done - pieces[first].done;
    if (took < window) break;
    best = std::max(best, 8e3 * static_cast<double>(bytes) / static_cast<double>(took.count()));
  }
  return std::min(best, LinkRate::kMostMbps);
}

}  // namespace

void LinkRate::add(std::vector<Piece> pieces) {
  if (pieces.size() < 2) return;
  std::ranges::sort(pieces, {}, &Piece::done);
  const nanoseconds now = pieces.back().done;
  while (!best_.empty() && best_.front().at < now - kKept) best_.pop_front();
  if (const double mbps = best_of(pieces); mbps > 0) best_.push_back({now, mbps});
}

double LinkRate::mbps() const {
  double best = 0;
  for (const Best& b : best_) best = std::max(best, b.mbps);
  return best;
}

}  // namespace ndtrain
