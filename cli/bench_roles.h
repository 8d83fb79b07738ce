// Both roles' real services in one process, each on a thread of its own, over a real link.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "cli/context.h"
#include "ndp/pipestore/service.h"
#include "tuner/service/service.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

// One turn of a role: its next event, and what its lanes have finished.
template <typename Service, typename Message>
void turn(Service& service, LinkEvents<Message>& events, ThreadLanes& lanes) {
  auto event = events.take(std::chrono::milliseconds(20));
  for (; event; event = events.take(std::chrono::nanoseconds(0))) service.handle(std::move(*event));
  for (const Continuation& after : lanes.take_finished()) after();
  service.tick();
}

// Of a job in progress, so far; 0 of any other.
inline uint64_t durable_rows(const TunerService& service, uint64_t job) {
  const auto active = service.in_progress(job);
  return active ? active->report.counts().durable : 0;
}

// Serves the Tuner at `address` with rows of `producer` until `stop`.
inline void run_store(Context& context, const std::string& state_path, const std::string& address,
                      RowProducer& producer, const std::atomic<bool>& stop) {
  StateDirectory state = StateDirectory::open(context.fs(), state_path, "pipestore").or_throw();
  LinkEvents<wire::ToStore> events;
  ThreadLanes lanes(PipeStoreService::kLanes, [&] { events.wake(); });
  wire::Hello hello;
  hello.set_store("memory");
  PipeStoreService service({context.fs(), context.clock(), state, lanes, producer,
                            [&](LinkId id) { return LinkClient::dial(address, {}, id, events); }},
                           hello, 1);
  while (!stop) turn(service, events, lanes);
}

}  // namespace ndtrain::cli
