// The machines that train together with this Tuner: who has a session, what they are doing, and the
// trainings that they are asked to join.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/net.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/tuner_sessions.h"
#include "tuner/group/training_members.h"

namespace ndtrain::tuner {
using namespace ndp;

struct MemberRecord {
  std::string name, numerics, version, peer;
  std::string site;     // where it is; "": by itself, or a program that does not say it
  uint64_t job = 0;     // that it trains for; 0: none
  std::string failure;  // why it left its last training; "": it did not fail
};

// One thread, the Tuner's, handles events and ticks; any other may ask, and one job meets them.
class TunerMembers final : public TrainingMembers {
 public:
  using Time = TunerSessions::Time;

  struct Setting {
    Clock& clock;
    LinkServer& links;
    Net& net;                                   // between ranks
    std::string listen;                         // where members meet this Tuner as rank 0
    std::chrono::milliseconds silence{30'000};  // of a rank that is then lost
    std::string site = {};                      // TrainingMembers::site()
  };
  TunerMembers(Setting setting, TunerSessions sessions);

  void handle(LinkEvent<wire::FromStore> event);
  void tick();
  Time next() const;  // when tick() has something to do

  std::vector<MemberRecord> members() const;  // that are here, by name
  GroupFigures figures() const;               // of the last training

  TrainingGroup meet(const Wanted& wanted, Progress& progress) override;
  std::vector<std::string> idle(const Wanted& wanted) const override;
  void report(const GroupFigures& figures) override;
  std::string site() const override { return setting_.site; }

 private:
  struct Member {
    MemberRecord record;
    uint64_t training = 0;  // that it was asked to join; 0: none
  };
  struct Meeting {
    TrainingGroup group;              // nobody where somebody did not come
    std::vector<std::string> absent;  // who did not
    std::string why;
  };

  Time now() const { return setting_.clock.monotonic(); }
  void apply(TunerSessions::Actions actions);
  void left_training(const std::string& name, const wire::LeftTraining& left);
  static std::string why_not(const Member& member, const Wanted& wanted);  // "": it does
  std::string others(const Wanted& wanted) const;  // that do not do, and why
  Meeting meet_these(const std::vector<std::string>& names, const Wanted& wanted);
  void ask(const std::vector<std::string>& names, uint64_t job, const std::string& address);

  const Setting setting_;
  mutable std::mutex mutex_;  // of all below
  TunerSessions sessions_;
  std::map<std::string, Member> members_;
  uint64_t trainings_ = 0;
  GroupFigures figures_;
};

}  // namespace ndtrain::tuner
