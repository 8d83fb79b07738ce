#include "tests/cuda/emulation.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "backends/cuda/check.h"
#include "tests/cuda/fake_cudart.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
inline void __sanitizer_start_switch_fiber(void**, const void*, size_t) {}
inline void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) {}
#endif

namespace ndtrain::cuda::emulation {

thread_local Place here;

namespace {

constexpr unsigned kLanes = 32, kMostThreads = 1024;
constexpr size_t kStackBytes = 128 * 1024;

enum class State { kNew, kReady, kAtBarrier, kAtShuffle, kDone };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  void* fake_stack = nullptr;
};

struct Thread {
  State state = State::kNew;
  Fiber* fiber = nullptr;
  unsigned shuffles = 0;
};

[[noreturn]] void stop(const char* why, unsigned warp) {
  std::fprintf(stderr, "emulated kernel, block %u, warp %u: %s\n", here.block.x, warp, why);
  std::abort();
}

// The threads of one block. A fiber runs one thread after the other of its warp until one waits;
// so a kernel without barriers needs one fiber.
class Block {
 public:
  void run(unsigned threads, const std::function<void()>& kernel) {
    kernel_ = &kernel;
    threads_.assign(threads, {});
    for (bool all_done = false; !all_done;) {
      unsigned done = 0;
      for (unsigned w = 0; w < threads / kLanes; ++w) done += run_warp(w) ? 1 : 0;
      all_done = done == threads / kLanes;
      if (done > 0 && !all_done) stop("some warps are done, others at a barrier", 0);
      for (Thread& t : threads_) {
        if (t.state == State::kAtBarrier) t.state = State::kReady;
      }
    }
  }

  void wait(State at) {
    Thread& self = threads_[current_];
    self.state = at;
    const Place place = here;
    leave(*self.fiber, false);
    here = place;
  }

  uint64_t exchange(uint64_t bits, unsigned lane_mask) {
    const unsigned me = current_, turn = threads_[me].shuffles++ % 2;
    slots_[turn][me] = bits;
    wait(State::kAtShuffle);
    return slots_[turn][me ^ lane_mask];
  }

 private:
  // Until every lane is at a barrier, or every lane is done (true).
  bool run_warp(unsigned warp) {
    const auto begin = threads_.begin() + warp * kLanes, end = begin + kLanes;
    const auto all = [&](State s) {
      return std::all_of(begin, end, [s](const Thread& t) { return t.state == s; });
    };
    while (true) {
      for (unsigned i = warp * kLanes; i < (warp + 1) * kLanes; ++i) {
        if (threads_[i].state == State::kReady || threads_[i].state == State::kNew) resume(i);
      }
      if (all(State::kDone)) return true;
      if (all(State::kAtBarrier)) return false;
      if (!all(State::kAtShuffle)) stop("its lanes do not wait at the same kind of place", warp);
      for (auto t = begin; t != end; ++t) t->state = State::kReady;
    }
  }

  void resume(unsigned i) {
    current_ = i;
    Thread& t = threads_[i];
    if (!t.fiber) t.fiber = fresh_fiber();
    Fiber& f = *t.fiber;
    running_ = &f;
    __sanitizer_start_switch_fiber(&scheduler_fake_stack_, f.stack.get(), kStackBytes);
    swapcontext(&scheduler_, &f.context);
    __sanitizer_finish_switch_fiber(scheduler_fake_stack_, nullptr, nullptr);
  }

  void leave(Fiber& f, bool for_good) {
    __sanitizer_start_switch_fiber(for_good ? nullptr : &f.fake_stack, scheduler_stack_,
                                   scheduler_bytes_);
    swapcontext(&f.context, &scheduler_);
    __sanitizer_finish_switch_fiber(f.fake_stack, &scheduler_stack_, &scheduler_bytes_);
  }

  Fiber* fresh_fiber() {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>());
      free_.push_back(fibers_.back().get());
    }
    Fiber* f = free_.back();
    free_.pop_back();
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack.get();
    f->context.uc_stack.ss_size = kStackBytes;
    f->context.uc_link = nullptr;
    f->fake_stack = nullptr;
    makecontext(&f->context, &Block::enter, 0);
    return f;
  }

  static void enter();

  void run_threads() {
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_bytes_);
    Fiber& self = *running_;
    while (true) {
      const unsigned i = current_;
      threads_[i].fiber = &self;
      here.thread = dim3(i);
      (*kernel_)();
      threads_[i].state = State::kDone;
      const unsigned next = i + 1;
      const bool more = next % kLanes != 0 && threads_[next].state == State::kNew;
      if (!more) break;
      current_ = next;
    }
    free_.push_back(&self);
    leave(self, true);
  }

  const std::function<void()>* kernel_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber* running_ = nullptr;
  unsigned current_ = 0;
  uint64_t slots_[2][kMostThreads] = {};
  ucontext_t scheduler_;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_bytes_ = 0;
};

Block& block() {
  static thread_local Block b;
  return b;
}

void Block::enter() { block().run_threads(); }

}  // namespace

void run_blocks(unsigned blocks, unsigned threads, const std::function<void()>& kernel) {
  if (threads == 0 || threads % kLanes != 0 || threads > kMostThreads) {
    stop("its blocks are no whole warps", 0);
  }
  for (unsigned b = 0; b < blocks; ++b) {
    here = {dim3(0), dim3(b), dim3(blocks), dim3(threads)};
    block().run(threads, kernel);
  }
}

void launch(unsigned blocks, unsigned threads, cudaStream_t stream, std::function<void()> kernel) {
  check(fake::enqueue(stream, "cudaLaunchKernel", [=] { run_blocks(blocks, threads, kernel); }),
        "start a kernel");
}

void barrier() { block().wait(State::kAtBarrier); }

uint64_t exchange(uint64_t bits, unsigned lane_mask) { return block().exchange(bits, lane_mask); }

}  // namespace ndtrain::cuda::emulation
