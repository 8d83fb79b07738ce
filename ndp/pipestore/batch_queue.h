// What waits to be inferred, and when it is a batch: as soon as it is full, when its first item has
// waited long enough, or when nothing else is on its way. A pure state machine: the caller says
// what time it is. One thread.
//
// A batch has a power of two of items: plans exist for these, and would pad any other number. The
// rest is the next batch, at once.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace ndtrain::ndp {

// Items of one batch have equal `model` members.
template <typename Item>
class BatchQueue {
 public:
  using Time = std::chrono::nanoseconds;  // on a monotonic clock

  BatchQueue(size_t batch, Time most_delay) : batch_(batch), most_delay_(most_delay) {}

  void add(Time now, Item item) { waiting_.emplace_back(now, std::move(item)); }
  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }

  // `coming`: others will be added soon. Empty: not yet.
  std::vector<Item> take(Time now, bool coming) {
    std::vector<Item> items;
    if (waiting_.empty()) return items;
    const auto model = waiting_.front().second.model;
    const auto same = [&](const auto& w) { return w.second.model == model; };
    const auto n = static_cast<size_t>(std::ranges::count_if(waiting_, same));
    const bool whole = n >= batch_ || !coming;
    if (!whole && now < next()) return items;
    const size_t most = std::bit_floor(std::min(n, batch_));
    for (auto it = waiting_.begin(); it != waiting_.end() && items.size() < most;) {
      if (!same(*it)) {
        ++it;
        continue;
      }
      items.push_back(std::move(it->second));
      it = waiting_.erase(it);
    }
    return items;
  }

  // When take() gives something, whatever comes; Time::max() when nothing waits.
  Time next() const {
    return waiting_.empty() ? Time::max() : waiting_.front().first + most_delay_;
  }

 private:
  size_t batch_;
  Time most_delay_;
  std::deque<std::pair<Time, Item>> waiting_;
};

}  // namespace ndtrain::ndp
