#include "framework/core/lanes.h"

namespace ndtrain {

ThreadLanes::ThreadLanes(size_t lanes, std::function<void()> wake) : wake_(std::move(wake)) {
  for (size_t i = 0; i < lanes; ++i) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->thread = std::jthread([this, lane = lanes_.back().get()] { work(*lane); });
  }
}

ThreadLanes::~ThreadLanes() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (const auto& lane : lanes_) lane->ready.notify_all();
  for (const auto& lane : lanes_) lane->thread.join();
}

void ThreadLanes::start(size_t lane, Task task) {
  {
    const std::lock_guard lock(mutex_);
    lanes_.at(lane)->tasks.push_back(std::move(task));
  }
  lanes_[lane]->ready.notify_all();
}

void ThreadLanes::work(Lane& lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    lane.ready.wait(lock, [&] { return stopping_ || !lane.tasks.empty(); });
    if (stopping_) return;
    Task task = std::move(lane.tasks.front());
    lane.tasks.pop_front();
    lane.busy = true;
    lock.unlock();
    Continuation after;
    std::exception_ptr failure;
    try {
      after = task();
      task = nullptr;  // what it holds goes on this thread
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    lane.busy = false;
    if (failure && !failure_) failure_ = failure;
    if (after) finished_.push_back(std::move(after));
    lock.unlock();
    wake_();
    lock.lock();
  }
}

std::vector<size_t> ThreadLanes::lengths() {
  const std::lock_guard lock(mutex_);
  std::vector<size_t> all;
  for (const auto& lane : lanes_) all.push_back(lane->tasks.size() + (lane->busy ? 1 : 0));
  return all;
}

std::vector<Continuation> ThreadLanes::take_finished() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return std::exchange(finished_, {});
}

}  // namespace ndtrain
