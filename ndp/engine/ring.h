#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace ndtrain::ndp {

// Hands things from one stage of a pipeline to the next, in order. close() lets the receivers
// finish what is there and then get nullopt. Thread-safe.
template <typename T>
class HandOff {
 public:
  void push(T item) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
  }

  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return first();
  }

  // nullopt, too, when there is nothing yet.
  std::optional<T> pop_if_ready() {
    const std::lock_guard lock(mutex_);
    return first();
  }

  size_t size() {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

 private:
  std::optional<T> first() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace ndtrain::ndp
