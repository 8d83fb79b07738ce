#include "ndp/sandbox/worker_start.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <span>
#include <string>

#include "ndp/sandbox/confinement.h"

namespace ndtrain::ndp {
namespace {

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Where memory runs out, of all processes of the machine: what it does is done again elsewhere.
void die_first() { std::ofstream("/proc/self/oom_score_adj") << 1000; }

bool say_ready(WorkerChannel& channel, const Confinement& is) {
  std::string missing;
  for (const std::string& m : is.missing) missing += (missing.empty() ? "" : ", ") + m;
  return channel.send_all({.kind = WorkerRecord::kReady,
                           .filter = is.filter,
                           .landlock = static_cast<uint32_t>(is.landlock),
                           .limited = is.memory},
                          bytes_in(missing), {});
}

}  // namespace

std::optional<WorkerChannel> begin_work(std::string_view word,
                                        const std::function<void()>& prepare) {
  void* window = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED, kWorkerWindow, 0);
  if (window == MAP_FAILED) {
    std::fprintf(stderr, "ndtrain: %s is a part of other verbs, which start it\n",
                 std::string(word).c_str());
    return std::nullopt;
  }
  close(kWorkerWindow);
  WorkerChannel channel(kWorkerSocket, static_cast<std::byte*>(window));
  const std::optional<WorkerRecord> limits = channel.receive();
  if (!limits || limits->kind != WorkerRecord::kLimits) return std::nullopt;
  die_first();
  prepare();
  const Result<Confinement> is = confine(kWorkerSocket, {.memory = limits->memory,
                                                         .cpu_seconds = limits->cpu_seconds,
                                                         .filter = limits->filter != 0,
                                                         .landlock = limits->landlock != 0});
  if (!is.ok()) {
    (void)refuse(channel, is.status());
    return std::nullopt;
  }
  if (!say_ready(channel, *is)) return std::nullopt;
  return channel;
}

std::optional<std::string_view> received(WorkerChannel& channel, const WorkerRecord& first,
                                         std::string& whole) {
  if (first.part == first.total) {
    return std::string_view(reinterpret_cast<const char*>(channel.window().data()), first.part);
  }
  whole.resize(first.total);
  if (!channel.receive_all(first, std::as_writable_bytes(std::span(whole)), {})) {
    return std::nullopt;
  }
  return whole;
}

bool refuse(WorkerChannel& channel, const Status& why) {
  return channel.send_all(
      {.kind = WorkerRecord::kRefusal, .code = static_cast<uint32_t>(why.code())},
      bytes_in(std::string_view(why.message()).substr(0, kRefusalBytes)), {});
}

}  // namespace ndtrain::ndp
