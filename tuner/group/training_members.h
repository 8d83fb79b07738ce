// Where a job gets other Tuners from that train with this one.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/comm/rank_relay.h"
#include "framework/sparse/control/telemetry.h"
#include "ndp/jobs/progress.h"

namespace ndtrain::tuner {
using namespace ndp;

// Ranks that have met, this one as rank 0.
struct TrainingGroup {
  std::unique_ptr<RankRelay> relay;     // between them, where it is needed; ends last
  std::unique_ptr<Communicator> ranks;  // null: nobody is here
  std::vector<std::string> names;       // of all ranks
};

// What a training by several Tuners is like, for who watches this one.
struct GroupFigures {
  uint64_t job = 0;
  int tuners = 0, lost = 0;
  double exposed_s = 0;         // that this one waited for the others
  double step_s = 0;            // median; 0: not measured yet
  std::string slowest;          // "": not measured yet, or this one
  int64_t row_bytes = 0;        // sent to members
  int64_t step_sent_bytes = 0;  // over slow links: of gradients, to each other, in a step
  Telemetry last_step = {};     // likewise, of this one; zeros: not measured
};

// From any thread.
class TrainingMembers {
 public:
  struct Wanted {
    uint64_t job = 0;
    int tuners = 2;        // this one among them
    std::string numerics;  // that they have to have
    // For so many; then those that are here do. 0: as the job waits for stores.
    std::chrono::nanoseconds patience{0};
    std::set<std::string> without = {};  // who did not do
    bool same_model = true;              // whoever and however many they are
  };

  virtual ~TrainingMembers() = default;
  // Waits for members that have nothing else to do, and meets them. `progress` says who is waited
  // for; nobody is where it is interrupted. Throws Error.
  virtual TrainingGroup meet(const Wanted& wanted, Progress& progress) = 0;
  // Who is here, has nothing else to do and would do, by name.
  virtual std::vector<std::string> idle(const Wanted& wanted) const = 0;
  virtual void report(const GroupFigures& figures) = 0;
  // Where this Tuner is; "": at no site that another is at.
  virtual std::string site() const = 0;
};

}  // namespace ndtrain::tuner
