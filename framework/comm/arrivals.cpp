#include "framework/comm/arrivals.h"

#include <algorithm>
#include <utility>

namespace ndtrain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGreeting{5'000};  // that who has come is given to say who it is
constexpr milliseconds kTurn{10};         // between looking for who comes and for who speaks
constexpr size_t kMostGuests = 64;        // the others wait at the door

}  // namespace

Arrivals::~Arrivals() {
  {
    const std::lock_guard lock(mutex_);
    for (Guest& g : guests_) {
      if (g.stream) g.stream->close();
    }
  }
  guests_.clear();
}

std::optional<Arrivals::Arrival> Arrivals::next(milliseconds patience) {
  const Steady::time_point end = Steady::now() + patience;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!guests_.empty()) spoken_.wait_for(lock, kTurn, [&] { return !heard_.empty(); });
      if (!heard_.empty()) {
        Arrival arrival = std::move(heard_.front());
        heard_.pop_front();
        return arrival;
      }
    }
    dismiss();
    const auto left = std::chrono::ceil<milliseconds>(end - Steady::now());
    if (left <= milliseconds(0)) return std::nullopt;
    if (guests_.size() < kMostGuests) receive(guests_.empty() ? left : std::min(left, kTurn));
  }
}

void Arrivals::receive(milliseconds patience) {
  Result<std::unique_ptr<Stream>> stream = listener_.accept(patience);
  if (!stream.ok()) {
    // As where the process has no descriptor left; there may be one later.
    if (stream.status().code() != Code::kCancelled) std::this_thread::sleep_for(kTurn);
    return;
  }
  Guest& guest = guests_.emplace_back(std::move(*stream), Steady::now());
  guest.thread = std::jthread([this, &guest] { hear(guest); });
}

void Arrivals::hear(Guest& guest) {
  Stream& stream = *guest.stream;
  Result<RankHello> hello = read_hello(stream, kGreeting);
  if (!hello.ok()) {
    // It may be gone.
    static_cast<void>(write_answer(stream, {.refusal = hello.status().message()}).ok());
  }
  const std::lock_guard lock(mutex_);
  heard_.push_back({std::move(guest.stream), std::move(hello)});
  spoken_.notify_one();
}

void Arrivals::dismiss() {
  std::list<Guest> heard;  // their threads are waited for without the lock
  const std::lock_guard lock(mutex_);
  for (auto it = guests_.begin(); it != guests_.end();) {
    const auto guest = it++;
    if (!guest->stream) {
      heard.splice(heard.end(), guests_, guest);
    } else if (Steady::now() - guest->since > kGreeting) {
      guest->stream->close();
    }
  }
}

}  // namespace ndtrain
