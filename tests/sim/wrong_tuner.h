// A Tuner that runs on a copy of the right one's state, at the other end of one link: of an earlier
// term (an old machine that woke up), or of the same one (it was started as often). It takes the
// store for its own where it is let, and ends its job and its uploads.
#pragma once

#include <vector>

#include "ndp/wire/protocol.h"
#include "ndp/wire/tuner_sessions.h"

namespace ndtrain::sim {
using namespace ndp;

class WrongTuner {
 public:
  using Time = TunerSessions::Time;

  // `careful`: it asks which Tuner the store has seen.
  WrongTuner(TunerIdentity me, bool careful, Time now)
      : sessions_(std::move(me), kHeartbeat, kWindow), careful_(careful) {
    sessions_.opened(now, kLink, {"host of a store", ""});
  }

  std::vector<wire::ToStore> answer(Time now, wire::FromStore message) {
    if (!careful_ && message.has_hello()) message.mutable_hello()->clear_newest_term();
    const TunerSessions::Actions actions = sessions_.message(now, kLink, message);
    std::vector<wire::ToStore> said;
    for (const auto& [link, m] : actions.send) said.push_back(m);
    if (!actions.arrived) return said;
    said.emplace_back().mutable_uploads_kept()->set_sequence((uint64_t{1} << 53) - 1);
    said.emplace_back().mutable_job_end()->set_job(1);
    for (wire::ToStore& m : said) sessions_.stamp(now, kLink, m);
    return said;
  }

 private:
  static constexpr LinkId kLink = 1;

  TunerSessions sessions_;
  bool careful_;
};

}  // namespace ndtrain::sim
