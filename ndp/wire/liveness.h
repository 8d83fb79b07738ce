// When to say something, and when to give a peer up. Any byte counts as a sign of life.
#pragma once

#include <algorithm>
#include <chrono>

namespace ndtrain::ndp {

class Liveness {
 public:
  using Time = std::chrono::nanoseconds;  // of a monotonic clock

  static constexpr int kSilentHeartbeats = 3;  // then the peer is gone

  Liveness(Time heartbeat, Time now)
      : heartbeat_(heartbeat), heard_(now), said_(now), looked_(now) {}

  // Before dead() is asked, at least every heartbeat. Who looks no more than a heartbeat after the
  // last time sees what there is to hear; who comes later stood still itself, and what the peer
  // said meanwhile may not have been read: that time is not the peer's silence.
  void look(Time now) {
    stood_still(now, std::max(now - looked_ - heartbeat_, Time(0)));
    looked_ = now;
  }
  // Who looks at many peers at once, and so knows it of itself, says it to each instead.
  void stood_still(Time now, Time late) { heard_ = std::min(now, heard_ + late); }

  void heard(Time now) { heard_ = now; }
  void said(Time now) { said_ = now; }
  Time heard() const { return heard_; }

  bool ping_due(Time now) const { return now - said_ >= heartbeat_; }
  bool silent(Time now) const { return now - heard_ >= heartbeat_; }  // for one heartbeat
  bool dead(Time now) const { return now >= dead_at(); }
  // When the peer is given up, if nothing is heard before.
  Time dead_at() const { return heard_ + heartbeat_ * kSilentHeartbeats; }
  // When a ping is due or the peer is given up, if nothing is said or heard before.
  Time next() const { return std::min(said_ + heartbeat_, dead_at()); }

 private:
  Time heartbeat_, heard_, said_, looked_;
};

}  // namespace ndtrain::ndp
