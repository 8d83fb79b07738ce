#include "ndp/http/handler_threads.h"

#include <utility>

namespace ndtrain::ndp {

HandlerThreads::~HandlerThreads() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void HandlerThreads::run(bool urgent, std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  (urgent ? urgent_tasks_ : ordinary_tasks_).push_back(std::move(task));
  const auto waiting = static_cast<int64_t>(urgent_tasks_.size() + ordinary_tasks_.size());
  if (waiting > idle_ && static_cast<int64_t>(threads_.size()) < most_) {
    threads_.emplace_back([this] { work(); });
  }
  changed_.notify_one();
}

HandlerThreads::Tasks* HandlerThreads::next() {
  if (!urgent_tasks_.empty()) return &urgent_tasks_;
  const bool may = !ordinary_tasks_.empty() && ordinary_at_work_ < ordinary_;
  return may ? &ordinary_tasks_ : nullptr;
}

void HandlerThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] {
      return next() != nullptr || (over_ && ordinary_tasks_.empty() && urgent_tasks_.empty());
    });
    --idle_;
    Tasks* const tasks = next();
    if (!tasks) return;
    const bool ordinary = tasks == &ordinary_tasks_;
    std::function<void()> task = std::move(tasks->front());
    tasks->pop_front();
    ordinary_at_work_ += ordinary;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    ordinary_at_work_ -= ordinary;
    // One that was not allowed to begin may be now; at the end, all may go.
    changed_.notify_all();
  }
}

}  // namespace ndtrain::ndp
