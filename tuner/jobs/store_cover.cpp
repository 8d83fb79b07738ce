#include "tuner/jobs/store_cover.h"

#include <algorithm>
#include <utility>

#include "tuner/jobs/store_choice.h"

namespace ndtrain::tuner {

namespace {

// Photos by their holders: gain[s] is how many of store s none that was taken has.
class Uncovered {
 public:
  explicit Uncovered(std::span<const HeldPhotos> held) : gain_(held.size()), own_(held.size()) {
    for (size_t s = 0; s < held.size(); ++s) {
      for (const Digest& photo : held[s].photos) claims_.emplace_back(photo, s);
      gain_[s] = held[s].photos.size();
    }
    std::ranges::sort(claims_);
    for (size_t c = 0; c < claims_.size(); ++c) own_[claims_[c].second].push_back(c);
    covered_.resize(claims_.size());
  }

  size_t gain(size_t store) const { return gain_[store]; }

  void take(size_t store) {
    for (const size_t c : own_[store]) {
      if (covered_[c]) continue;
      size_t first = c, end = c + 1;
      while (first > 0 && claims_[first - 1].first == claims_[c].first) --first;
      while (end < claims_.size() && claims_[end].first == claims_[c].first) ++end;
      for (size_t other = first; other < end; ++other) {
        covered_[other] = true;
        --gain_[claims_[other].second];
      }
    }
  }

 private:
  std::vector<std::pair<Digest, size_t>> claims_;  // rising
  std::vector<bool> covered_;                      // claims
  std::vector<size_t> gain_;
  std::vector<std::vector<size_t>> own_;  // claims of each store
};

// By name: those of which too little is known, and the others.
struct Order {
  explicit Order(std::span<const HeldPhotos> held) {
    for (size_t s = 0; s < held.size(); ++s) (held[s].known ? known : unknown).push_back(s);
    const auto by_name = [&](size_t s) -> const std::string& { return held[s].store; };
    std::ranges::sort(unknown, {}, by_name);
    std::ranges::sort(known, {}, by_name);
  }
  std::vector<size_t> unknown, known;
};

}  // namespace

StoreCover uncompared(std::span<const HeldPhotos> held) {
  const Order order(held);
  StoreCover cover{.enough = held.size()};
  for (const size_t s : order.unknown) cover.stores.push_back(held[s].store);
  for (const size_t s : order.known) cover.stores.push_back(held[s].store);
  return cover;
}

StoreCover greedy_cover(std::span<const HeldPhotos> held) {
  size_t claims = 0;
  for (const HeldPhotos& h : held) claims += h.photos.size();
  if (claims > kMostCompared) return uncompared(held);
  auto [order, left] = Order(held);
  StoreCover cover;
  Uncovered photos(held);
  for (const size_t s : order) photos.take(s);
  cover.enough = order.size();
  const bool all_known = order.empty();
  while (!left.empty()) {
    const auto best = std::ranges::max_element(left, {}, [&](size_t s) { return photos.gain(s); });
    const size_t s = *best;
    left.erase(best);
    order.push_back(s);
    if (photos.gain(s) > 0) cover.enough = order.size();
    if (all_known) cover.distinct += static_cast<double>(photos.gain(s));
    photos.take(s);
  }
  for (const size_t s : order) cover.stores.push_back(held[s].store);
  return cover;
}

std::vector<int> counts_of(const StoreCover& cover) {
  constexpr size_t kMostCounts = 16;
  const size_t most = cover.stores.size();
  if (most == 0) return {};
  const size_t least = std::clamp<size_t>(cover.enough, 1, most);
  const size_t steps = std::min(kMostCounts - 1, most - least);
  std::vector<int> counts;
  for (size_t i = 0; i <= steps; ++i) {
    const size_t n = least + (steps > 0 ? (most - least) * i / steps : 0);
    if (n <= kMostNamed || n == most) counts.push_back(static_cast<int>(n));
  }
  return counts;
}

}  // namespace ndtrain::tuner
