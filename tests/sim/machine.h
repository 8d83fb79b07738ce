// A computer that runs one role: its disk, its slow work, its deaths. What a role does happens in
// turns; a turn in which the disk dies, or which throws, is the last of that life.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/core/lanes.h"
#include "framework/core/rng.h"
#include "framework/testing/memory_fs.h"
#include "tests/sim/machine_clock.h"

namespace ndtrain::sim {

// The tasks that ran, by what started them, and how they took part in syncing the disk.
struct LaneSyncs {
  std::set<std::string> ran, synced, failed;
};

// Tasks take their time, and so does what comes after them; in order on each lane.
class SlowLanes final : public Lanes {
 public:
  // Calls what it is given as a turn of the machine, unless the machine has died meanwhile.
  using Turn = std::function<void(Time delay, std::function<void()>)>;

  // `disk`: the machine's.
  SlowLanes(size_t lanes, Rng& rng, const MemoryFs& disk, LaneSyncs& syncs, Turn turn)
      : rng_(rng),
        disk_(disk),
        syncs_(syncs),
        turn_(std::move(turn)),
        lanes_(lanes),
        ended_(lanes) {}
  void start(size_t lane, Task task) override;

 private:
  void begin(size_t lane);
  // The second lane is the Tuner's, which trains.
  Time a_while(size_t lane) {
    return seconds(0.02 + (lane == 1 ? 3 : 0.8) * rng_.next_uniform() * rng_.next_uniform());
  }

  Rng& rng_;
  const MemoryFs& disk_;
  LaneSyncs& syncs_;
  Turn turn_;
  std::vector<std::deque<Task>> lanes_;
  std::vector<std::deque<Continuation>> ended_;  // what each lane's tasks returned
};

class Machine {
 public:
  // The disk keeps what was written; what was synced, and of the rest what chance decides, the
  // clock starting anew or not.
  enum class Death { kKill, kPowerCut, kFsync };

  Machine(Timeline& timeline, std::string name, uint64_t seed);
  virtual ~Machine() = default;

  void boot();
  bool up() const { return up_; }
  bool gone() const { return gone_; }  // for ever
  bool awake() const { return up_ && !asleep_; }
  uint64_t life() const { return life_; }
  bool disk_full() const { return full_; }
  // Since the last call.
  bool was_full() { return std::exchange(was_full_, full_); }
  const std::string& name() const { return name_; }
  MemoryFs& disk() { return disk_; }
  const LaneSyncs& lane_syncs() const { return lane_syncs_; }
  int64_t fsync_deaths() const { return fsync_deaths_; }
  MachineClock& clock() { return clock_; }
  // Of the names of its files: what some of them say is of the real clock, and of where a test
  // runs.
  uint64_t disk_digest();
  // Neither crashed nor in a turn in which it has.
  bool alive() { return up_ && disk_.info("/").status().code() != Code::kIo; }

  // Runs `f` as a turn of this life; when it wakes, if it is asleep.
  void turn(const std::function<void()>& f);
  // And the same later, if this life lasts.
  void later(Time delay, std::function<void()> f);

  void die(Death how, Time back_after);
  void die_within(int64_t disk_calls, Time back_after);  // of a power cut
  void lose();                                           // never comes back
  // Suspended: what would happen waits. Its clock for deadlines goes on meanwhile or not.
  void sleep(Time duration, bool clock_goes_on);
  void fill_disk(int64_t slack);
  void free_disk();

  // Messages of processes that ended of themselves, which they may where the disk is full.
  const std::vector<std::string>& failures() const { return failures_; }

 protected:
  virtual void start() = 0;       // the role's process; throws when it cannot
  virtual void end() = 0;         // of the process, without a word to anybody
  virtual void after_turn() = 0;  // of a turn that went well
  virtual bool may_die_when_full() const = 0;

  // A turn comes at that time of its own clock, if none comes before.
  void alarm(Time at);

  Timeline& timeline_;
  MachineClock clock_;
  Rng rng_;
  MemoryFs disk_;
  std::unique_ptr<SlowLanes> lanes_;  // of this life
  void make_lanes(size_t lanes);
  void stop_for(Time back_after);  // the process ends of its own will

 private:
  void over(Death how, Time back_after);
  void wake();

  std::string name_;
  bool up_ = false, gone_ = false, full_ = false, was_full_ = false, asleep_ = false;
  std::deque<std::function<void()>> missed_;  // while it is asleep
  Time alarm_at_ = Time::min();
  uint64_t life_ = 0;
  Time back_after_{0};
  std::optional<Time> stopping_;
  // What later() has put off; dropped with the life, and with it what it holds on to.
  std::map<uint64_t, std::function<void()>> put_off_;
  uint64_t serial_ = 0;
  std::vector<std::string> failures_;
  LaneSyncs lane_syncs_;
  int64_t fsync_deaths_ = 0;  // of an fsync that failed while the machine was well
};

}  // namespace ndtrain::sim
