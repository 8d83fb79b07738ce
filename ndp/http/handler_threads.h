// The threads on which handlers run: as many as are wanted at once, up to a bound. Some are kept
// for tasks that must not wait behind others.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ndtrain::ndp {

class HandlerThreads {
 public:
  // `reserved` of `most` take urgent tasks only.
  HandlerThreads(int64_t most, int64_t reserved) : most_(most), ordinary_(most - reserved) {}
  // After all that was asked for.
  ~HandlerThreads();
  HandlerThreads(const HandlerThreads&) = delete;
  HandlerThreads& operator=(const HandlerThreads&) = delete;

  // From any thread; a task throws nothing.
  void run(bool urgent, std::function<void()> task);

 private:
  using Tasks = std::deque<std::function<void()>>;

  void work();
  Tasks* next();  // under mutex_; null: there is nothing that may be begun

  const int64_t most_, ordinary_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  Tasks urgent_tasks_, ordinary_tasks_;
  int64_t idle_ = 0, ordinary_at_work_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ndtrain::ndp
