// Links that this machine does not have.
#pragma once

#include <memory>

#include "framework/comm/transport.h"
#include "framework/core/clock.h"

namespace ndtrain {

// A message takes latency + bytes / bandwidth, as alpha + beta n of the costs that schedules are
// made for. The bytes of a direction of a pair follow each other, directions and pairs are beside
// each other, and a latency holds up nobody: messages sent together take one.
struct LinkModel {
  double latency_s = 0;
  double bytes_per_s = 0;  // 0: unlimited
};

// `inner`, whose messages this rank sends as late as they would have arrived: each rank has one.
// poll() waits by the system's time; with a ManualClock, advance it and poll without patience.
// Borrows the clock. Throws Error where a number is negative.
std::unique_ptr<Transport> over_link(std::unique_ptr<Transport> inner, const LinkModel& model,
                                     Clock& clock = system_clock());

}  // namespace ndtrain
