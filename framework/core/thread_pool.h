#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace ndtrain {

// A fixed set of threads for data-parallel loops. The caller's thread works too, so a pool of 1
// starts none. Loops may be issued from several threads at once (they share the workers) and from
// inside a loop body (the inner loop then runs where it is).
class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // >= 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(begin, end) over disjoint ranges that cover [0, n), each at most `grain` long.
  // Returns when all are done; the first exception thrown by a body is rethrown here. Which thread
  // runs which range is not fixed: results must not depend on it.
  void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ndtrain
