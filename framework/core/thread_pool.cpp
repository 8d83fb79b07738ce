#include "framework/core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

// Longer than the gap between two ops of a plan, shorter than anyone minds.
constexpr std::chrono::microseconds kSpin{30};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits briefly for `ready` without going to sleep; returns whether it came true. Yields now and
// then: on a busy machine the thread that is waited for may want this very core.
template <typename F>
bool spin_until(F ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

// One parallel_for, on its issuer's stack.
struct Loop {
  const int64_t n, grain, chunks;
  const std::function<void(int64_t, int64_t)>& body;
  std::atomic<int64_t> next{0};
  std::atomic<int> workers{0};  // pool threads inside; changes under the pool's mutex
  std::mutex mutex{};
  std::exception_ptr error{};  // the first; under mutex

  void work() {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < chunks;) {
      try {
        body(i * grain, i + 1 == chunks ? n : (i + 1) * grain);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = chunks;  // nobody takes another chunk
      }
    }
  }
};

}  // namespace

struct ThreadPool::State {
  // The pool whose loop body this thread is in.
  static thread_local const State* current;

  std::mutex mutex;
  std::condition_variable wake, left;
  std::vector<Loop*> loops;  // with chunks to take, oldest first; under mutex
  std::atomic<int> open{0};  // loops.size(), for spinning
  int sleeping = 0;          // under mutex
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (std::thread& t : workers) t.join();
  }

  // Under mutex.
  void close(Loop& loop) {
    std::erase(loops, &loop);
    open = static_cast<int>(loops.size());
  }

  void work_in(Loop& loop) {
    const State* outer = std::exchange(current, this);
    loop.work();
    current = outer;
  }

  void serve() {
    while (!stop) {
      spin_until([&] { return open.load(std::memory_order_relaxed) > 0 || stop; });
      std::unique_lock lock(mutex);
      ++sleeping;
      wake.wait(lock, [&] { return stop || !loops.empty(); });
      --sleeping;
      if (stop) return;
      Loop& loop = *loops.front();
      ++loop.workers;
      lock.unlock();
      work_in(loop);
      lock.lock();
      close(loop);
      // The issuer may return as soon as it sees zero, and the loop is gone then.
      if (--loop.workers == 0) left.notify_all();
    }
  }

  void run(Loop& loop) {
    int64_t idle = 0;
    {
      const std::lock_guard lock(mutex);
      loops.push_back(&loop);
      open = static_cast<int>(loops.size());
      idle = sleeping;
    }
    if (loop.chunks - 1 >= idle && idle > 0) wake.notify_all();
    if (loop.chunks - 1 < idle) {
      for (int64_t i = 1; i < loop.chunks; ++i) wake.notify_one();
    }
    work_in(loop);
    std::unique_lock lock(mutex);
    close(loop);
    if (loop.workers == 0) return;
    lock.unlock();
    const auto empty = [&] { return loop.workers.load(std::memory_order_acquire) == 0; };
    if (spin_until(empty)) return;
    lock.lock();
    left.wait(lock, empty);
  }
};

thread_local const ThreadPool::State* ThreadPool::State::current = nullptr;

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) throw Error("ThreadPool: ", threads, " threads; at least 1 is needed");
  state_ = std::make_unique<State>();
  for (int i = 1; i < threads; ++i) {
    state_->workers.emplace_back([s = state_.get()] { s->serve(); });
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(int64_t n, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  if (n < 0 || grain < 1) throw Error("parallel_for: n ", n, ", grain ", grain);
  const int64_t chunks = n / grain + (n % grain != 0 ? 1 : 0);
  if (chunks <= 1 || threads() == 1 || State::current == state_.get()) {
    for (int64_t begin = 0; begin < n;) {
      const int64_t end = begin + std::min(grain, n - begin);
      body(begin, end);
      begin = end;
    }
    return;
  }
  Loop loop{.n = n, .grain = grain, .chunks = chunks, .body = body};
  state_->run(loop);
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace ndtrain
