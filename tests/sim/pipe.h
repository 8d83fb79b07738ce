// One direction of a stream in simulated time: ordered and whole until it is cut.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "framework/core/rng.h"
#include "tests/sim/timeline.h"

namespace ndtrain::sim {

class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  explicit Pipe(Timeline& timeline) : timeline_(timeline) {}

  // Happens after `delay`, and after what was put before.
  void put(Time delay, std::function<void()> arrives) {
    if (cut_) return;
    items_.push_back({timeline_.now() + delay, std::move(arrives)});
    if (items_.size() == 1) wait();
  }
  // Nothing arrives until then.
  void hold(Time until) { held_until_ = std::max(held_until_, until); }
  // A part of what is under way arrives, then `last`; what is put from now on does not.
  void cut(Rng& rng, Time delay, std::function<void()> last) {
    if (cut_) return;
    const size_t survive = rng.next_below(items_.size() + 1);
    while (items_.size() > std::max<size_t>(survive, 1)) items_.pop_back();
    if (survive == 0 && !items_.empty()) items_.front().arrives = [] {};
    if (last) put(delay, std::move(last));
    cut_ = true;
  }
  // Nothing arrives any more; lets go of what the items hold.
  void drop() {
    items_.clear();
    cut_ = true;
  }
  size_t under_way() const { return items_.size(); }

 private:
  struct Item {
    Time ready;
    std::function<void()> arrives;
  };

  void wait() {
    const Time when = std::max(items_.front().ready, held_until_);
    timeline_.at(when, [self = shared_from_this()] { self->arrive(); });
  }
  void arrive() {
    if (items_.empty()) return;
    if (timeline_.now() < held_until_) return wait();
    const auto arrives = std::move(items_.front().arrives);
    items_.pop_front();
    if (!items_.empty()) wait();
    arrives();
  }

  Timeline& timeline_;
  std::deque<Item> items_;
  Time held_until_{0};
  bool cut_ = false;
};

}  // namespace ndtrain::sim
