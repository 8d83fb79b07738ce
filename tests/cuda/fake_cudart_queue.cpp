// The work of the fake's streams, and when it is done.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/fake_cudart_state.h"

namespace ndtrain::fake {
namespace {

std::mutex working;  // one piece at a time

std::optional<Work> taken(CUstream_st& stream) {
  const std::lock_guard lock(state().mutex);
  if (stream.queue.empty() || !stream.queue.front().after.reached()) return {};
  if (stream.queue.front().ready && !stream.queue.front().ready()) return {};
  Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  return work;
}

std::vector<CUstream_st*> newest_first() {
  const std::lock_guard lock(state().mutex);
  return {state().streams.rbegin(), state().streams.rend()};
}

// Whether the stream was ready for any.
bool work_piece(CUstream_st& stream) {
  const std::optional<Work> work = taken(stream);
  if (!work) return false;
  if (work->body) work->body();
  ++*stream.done;
  return true;
}

// One piece of every stream that is ready, the newest stream first. Whether there was any.
bool work_once() {
  bool any = false;
  for (CUstream_st* s : newest_first()) any |= work_piece(*s);
  return any;
}

// Another thread or process decides when some stream goes on.
bool waits_for_others() {
  const std::lock_guard lock(state().mutex);
  return std::ranges::any_of(state().streams, [](const CUstream_st* s) {
    return !s->queue.empty() && s->queue.front().ready && s->queue.front().after.reached();
  });
}

void put(CUstream_st& stream, Work work) {
  const std::lock_guard lock(state().mutex);
  stream.queue.push_back(std::move(work));
  ++stream.queued;
}

}  // namespace

void perform(cudaStream_t stream, std::function<void()> body) {
  if (!stream) {
    body();
  } else if (stream->capture) {
    stream->capture->work.push_back(std::move(body));
  } else {
    put(*stream, {std::move(body)});
  }
}

void perform_until(cudaStream_t stream, std::function<bool()> done) {
  if (stream) {
    put(*stream, {{}, {}, std::move(done)});
  } else {
    while (!done()) std::this_thread::yield();
  }
}

void wait_on(cudaStream_t stream, const Mark& mark) {
  if (stream) put(*stream, {{}, mark});
}

Mark mark_of(cudaStream_t stream) {
  if (!stream) return {};
  const std::lock_guard lock(state().mutex);
  return {stream->done, stream->queued};
}

void work_until(const Mark& mark) {
  std::unique_lock lock(working);
  while (!mark.reached()) {
    if (work_once()) continue;
    if (waits_for_others()) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      lock.lock();
      continue;
    }
    std::fputs("fake CUDA: streams wait for each other\n", stderr);
    std::abort();
  }
}

void work_a_little() {
  const std::unique_lock lock(working, std::try_to_lock);
  if (!lock) return;
  uint64_t draw = 0;
  {
    const std::lock_guard its(state().mutex);
    if (state().late) draw = 1 + (*state().late)() % (uint64_t{1} << 32);
  }
  if (draw == 0) {
    work_once();
  } else if (draw % 2 == 0) {
    const std::vector<CUstream_st*> streams = newest_first();
    if (!streams.empty()) work_piece(*streams[draw / 2 % streams.size()]);
  }
}

void work_until_idle() {
  const std::lock_guard lock(working);
  while (work_once()) {
  }
}

}  // namespace ndtrain::fake
