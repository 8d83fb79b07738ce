#include "ndp/http/handler_threads.h"

#include <algorithm>
#include <utility>

namespace ndtrain::ndp {

HandlerThreads::Bounds HandlerThreads::bounds(int64_t most, int64_t reserved) {
  const int64_t health = std::max<int64_t>(1, reserved / 4);
  const int64_t ordinary = most - reserved;
  return {most, most - std::min(health, reserved), ordinary,
          std::max(ordinary - reserved, (ordinary + 1) / 2)};
}

HandlerThreads::~HandlerThreads() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void HandlerThreads::run(RequestClass of, const std::string& client, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push(of, client, std::move(task));
    const auto waiting = static_cast<int64_t>(waiting_.size());
    if (waiting > idle_ && static_cast<int64_t>(threads_.size()) < bounds_.front()) {
      threads_.emplace_back([this] { work(); });
    }
  }
  changed_.notify_one();  // who wakes up finds the mutex free
}

std::optional<RequestClass> HandlerThreads::last_that_may() const {
  std::optional<RequestClass> last;
  int64_t behind = 0;  // at work, of this class and those behind it
  for (const int64_t n : at_work_) behind += n;
  for (size_t c = 0; c < kRequestClasses && behind < bounds_[c]; ++c) {
    last = static_cast<RequestClass>(c);
    behind -= at_work_[c];
  }
  return last;
}

bool HandlerThreads::may_begin() const {
  const std::optional<RequestClass> last = last_that_may();
  return last && waiting_.has(*last);
}

void HandlerThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return may_begin() || (over_ && waiting_.size() == 0); });
    --idle_;
    if (!may_begin()) return;
    auto [of, task] = *waiting_.pop(*last_that_may());
    int64_t& at_work = at_work_[static_cast<size_t>(of)];
    ++at_work;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    // This thread takes what may begin for that; at the end, all may go.
    --at_work;
    if (over_) changed_.notify_all();
  }
}

}  // namespace ndtrain::ndp
