#include "tuner/service/link_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/core/log.h"

namespace ndtrain::tuner {
using namespace ndp;

void LinkProbes::pump() {
  if (probing_ && now() - probing_->asked > kPatience) {
    log::warn("store {}: did not answer a probe of its link within {} s", probing_->store,
              kPatience.count());
    silent_.insert(probing_->store);
    probing_.reset();
  }
  if (probing_ || now() < look_at_ || !ports_.idle()) return;
  const int64_t since = ports_.clock.unix_seconds() - std::chrono::seconds(kGood).count();
  for (const auto& [name, store] : ports_.stores.all()) {
    if (!store.here || !store.takes_probes || silent_.contains(name)) continue;
    if (store.link.measured > since) continue;
    probing_ = Probing{.store = name};
    return ask();
  }
  look_at_ = now() + kLook;
}

LinkProbes::Time LinkProbes::next() const {
  return probing_ ? probing_->asked + kPatience + std::chrono::nanoseconds(1) : Time::max();
}

void LinkProbes::ask() {
  probing_->number = ++numbers_;
  probing_->asked = now();
  wire::ToStore m;
  m.mutable_probe()->set_number(probing_->number);
  if (probing_->step == Step::kUp) {
    m.mutable_probe()->set_answer_bytes(static_cast<uint32_t>(probing_->bytes));
  }
  if (probing_->step == Step::kDown) {
    m.mutable_probe()->set_payload(std::string(probing_->bytes, '\0'));
  }
  ports_.stores.send(probing_->store, std::move(m));
}

void LinkProbes::answer(const std::string& store, const wire::Probe& probe) {
  if (!probing_ || probing_->store != store || probing_->number != probe.number()) return;
  if (!ports_.idle()) return probing_.reset();  // rows are on the way as well
  Probing& p = *probing_;
  const Time took = now() - p.asked;
  const double seconds = std::chrono::duration<double>(took).count();
  if (p.step == Step::kRoundTrip) {
    const bool first = p.round_trips++ == 0;
    p.speed.round_trip_s = first ? seconds : std::min(p.speed.round_trip_s, seconds);
    if (p.round_trips < kRoundTrips) return ask();
    p.step = Step::kUp;
    p.bytes = kFirst;
    return ask();
  }
  // One that took less than the round trips did says little: it carries that much at least.
  const double beyond = std::max(seconds - p.speed.round_trip_s, seconds / 2);
  if (beyond < std::chrono::duration<double>(kLong).count() && p.bytes < kMost) {
    p.bytes = std::min(4 * p.bytes, kMost);
    return ask();
  }
  (p.step == Step::kUp ? p.speed.up : p.speed.down) = static_cast<double>(p.bytes) / beyond;
  if (p.step == Step::kUp) {
    p.step = Step::kDown;
    p.bytes = kFirst;
    return ask();
  }
  p.speed.measured = ports_.clock.unix_seconds();
  log::info("store {}: its link carries {:.3g} MB/s to the Tuner and {:.3g} MB/s from it", store,
            p.speed.up / 1e6, p.speed.down / 1e6);
  const LinkSpeed speed = p.speed;
  probing_.reset();
  ports_.stores.measured(store, speed);
  pump();
}

void LinkProbes::left(const std::string& store) {
  silent_.erase(store);
  if (probing_ && probing_->store == store) probing_.reset();
}

}  // namespace ndtrain::tuner
