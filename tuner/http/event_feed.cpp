#include "tuner/http/event_feed.h"

namespace ndtrain::tuner {
using namespace ndp;

void EventFeed::put(const std::string& event, const std::string& data) {
  const std::lock_guard lock(mutex_);
  Event& e = events_[event];
  if (e.number > 0 && e.data == data) return;
  e = {data, ++newest_};
}

bool EventFeed::followed() const {
  const std::lock_guard lock(mutex_);
  return followers_ > 0;
}

HttpResponse EventFeed::follow() {
  Follower follower;
  {
    const std::lock_guard lock(mutex_);
    if (followers_ == kStreams) {
      HttpResponse r = http_error(503, "as many follow the events as may, " +
                                           std::to_string(kStreams) + "; ask again, or poll");
      r.headers["Retry-After"] = "15";
      return r;
    }
    ++followers_;
  }
  follower.place = std::shared_ptr<EventFeed>(this, [](EventFeed* self) {
    const std::lock_guard lock(self->mutex_);
    --self->followers_;
  });
  follower.said = clock_.monotonic();
  follower.until = follower.said + kLife;
  return {.type = "text/event-stream",
          .headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}},
          .pieces = [this, follower]() mutable { return next(follower); }};
}

std::optional<std::string> EventFeed::next(Follower& f) {
  const std::lock_guard lock(mutex_);
  const auto now = clock_.monotonic();
  if (now >= f.until) return std::nullopt;
  std::string text;
  for (const auto& [name, event] : events_) {
    if (event.number > f.seen) text += "event: " + name + "\ndata: " + event.data + "\n\n";
  }
  f.seen = newest_;
  if (text.empty() && now - f.said >= kSilence) text = ":\n\n";
  if (!text.empty()) f.said = now;
  return text;
}

}  // namespace ndtrain::tuner
