// What all kinds of worker do first, and how they refuse.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "framework/core/status.h"
#include "ndp/sandbox/worker_channel.h"

namespace ndtrain::ndp {

// Where a worker finds its end of the socket, and the window, when it begins.
inline constexpr int kWorkerSocket = 3, kWorkerWindow = 4;
inline constexpr int kWorkerDone = 0, kWorkerFailed = 1;  // its exit status

// Takes its limits, does `prepare`, confines this process for good (confinement.h), and says so.
// Null: that was not possible, or nobody had started it; `word`, which it was called with, is named
// in a line for people then.
std::optional<WorkerChannel> begin_work(std::string_view word,
                                        const std::function<void()>& prepare);

// Bytes that came with `first`: where they lie, which is the window or, where they are more than
// that, `whole`. nullopt: the other end is gone.
std::optional<std::string_view> received(WorkerChannel& channel, const WorkerRecord& first,
                                         std::string& whole);

// False: the other end is gone.
bool refuse(WorkerChannel& channel, const Status& why);

}  // namespace ndtrain::ndp
