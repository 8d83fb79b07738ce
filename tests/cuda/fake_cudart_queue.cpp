// The work of the fake's streams, and when it is done.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "tests/cuda/fake_cudart_state.h"

namespace ndtrain::fake {
namespace {

std::mutex working;  // one piece at a time

std::optional<Work> taken(CUstream_st& stream) {
  const std::lock_guard lock(state().mutex);
  if (stream.queue.empty() || !stream.queue.front().after.reached()) return {};
  Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  return work;
}

// One piece of every stream that is ready, the newest stream first. Whether there was any.
bool work_once() {
  std::vector<CUstream_st*> streams;
  {
    const std::lock_guard lock(state().mutex);
    streams.assign(state().streams.rbegin(), state().streams.rend());
  }
  bool any = false;
  for (CUstream_st* s : streams) {
    const std::optional<Work> work = taken(*s);
    if (!work) continue;
    if (work->body) work->body();
    ++*s->done;
    any = true;
  }
  return any;
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

void wait_on(cudaStream_t stream, const Mark& mark) {
  if (stream) put(*stream, {{}, mark});
}

Mark mark_of(cudaStream_t stream) {
  if (!stream) return {};
  const std::lock_guard lock(state().mutex);
  return {stream->done, stream->queued};
}

void work_until(const Mark& mark) {
  const std::lock_guard lock(working);
  while (!mark.reached()) {
    if (work_once()) continue;
    std::fputs("fake CUDA: streams wait for each other\n", stderr);
    std::abort();
  }
}

void work_until_idle() {
  const std::lock_guard lock(working);
  while (work_once()) {
  }
}

}  // namespace ndtrain::fake
