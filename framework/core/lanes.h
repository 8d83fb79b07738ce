// Where a single-threaded role has slow work done: a task runs on one of the role's lanes, in order
// with the lane's other tasks, and what it returns is called afterwards by the role's own thread,
// in the same order.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ndtrain {

using Continuation = std::function<void()>;
using Task = std::function<Continuation()>;

class Lanes {
 public:
  virtual ~Lanes() = default;
  virtual void start(size_t lane, Task task) = 0;
};

// A thread for each lane. The role's thread calls take_finished() when `wake` was called, which any
// thread may do.
class ThreadLanes final : public Lanes {
 public:
  ThreadLanes(size_t lanes, std::function<void()> wake);
  // Waits for the tasks that run; those not begun are dropped, and what a task threw that nobody
  // has taken.
  ~ThreadLanes() override;

  void start(size_t lane, Task task) override;
  std::vector<size_t> lengths();  // of each lane: tasks that wait or run
  // What the role has to call, in the order in which tasks ended. Throws what a task threw.
  std::vector<Continuation> take_finished();

 private:
  struct Lane {
    std::deque<Task> tasks;
    bool busy = false;  // with one more
    std::condition_variable ready;
    std::jthread thread;
  };
  void work(Lane& lane);

  std::function<void()> wake_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::vector<Continuation> finished_;
  std::exception_ptr failure_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace ndtrain
