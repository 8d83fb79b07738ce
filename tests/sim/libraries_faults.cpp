// The faults of a simulation of several tasks and collections.
#include <algorithm>
#include <cmath>

#include "tests/sim/libraries.h"
#include "tuner/ingest/row_ingest.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

void Libraries::strike() {
  const size_t store = rng_.next_below(stores_.size());
  Fault fault{};
  do {
    fault = static_cast<Fault>(rng_.next_below(static_cast<uint64_t>(Fault::kFaults)));
  } while (!apply(fault, store));
  tell(std::string(name_of(fault)) + " (" + Collection::name_of(store) + ")");
  if (--faults_ > 0) timeline_.after(seconds(30 * rng_.next_uniform()), [this] { strike(); });
}

bool Libraries::apply(Fault fault, size_t s) {
  const Time back = seconds(0.1 + 20 * rng_.next_uniform() * rng_.next_uniform());
  const Time until = timeline_.now() + seconds(1 + 40 * rng_.next_uniform() * rng_.next_uniform());
  const auto lasting = [&](bool struck) {
    if (struck) healed_ = std::max(healed_, until);
    return struck;
  };
  switch (fault) {
    case Fault::kBreak:
      return network_.break_link(s);
    case Fault::kDelay:
      return network_.delay(s, timeline_.now() + seconds(12 * rng_.next_uniform()));
    case Fault::kPartition:
      network_.part(s, until);
      return lasting(true);
    case Fault::kPartitionAll:
      for (size_t i = 0; i < stores_.size(); ++i) network_.part(i, until);
      return lasting(true);
    case Fault::kReplay:
      return network_.replay(s);
    case Fault::kCorrupt:
      if (corruptions_[s] == RowIngest::kBadChecksums - 1) return false;
      if (!network_.corrupt_next_rows(s)) return false;
      ++corruptions_[s];
      return true;
    case Fault::kOldTuner:
      return lasting(network_.old_tuner(s, until));
    case Fault::kTwinTuner:
      return lasting(network_.twin_tuner(s, until));
    case Fault::kPhotoGone:
      return collection_.remove(s, rng_.next_below(Collection::kPhotos));
    case Fault::kPause:
    case Fault::kDrain:
      return lasting(pause_or_drain(fault, s, until));
    case Fault::kLostStore:
      return false;
    case Fault::kStopTuner:
      if (tuner_->up()) tuner_->stop(back);
      return tuner_->up();
    case Fault::kStopStore:
      if (stores_[s]->up()) stores_[s]->stop(back);
      return true;
    case Fault::kKillTuner:
    case Fault::kTunerPower:
    case Fault::kTunerTorn:
    case Fault::kTunerFull:
    case Fault::kTunerClock:
    case Fault::kTunerSleep:
      return apply_to(*tuner_, fault, back, until);
    default:
      return apply_to(*stores_[s], fault, back, until);
  }
}

bool Libraries::apply_to(Machine& machine, Fault fault, Time back, Time until) {
  if (!machine.awake()) return false;
  const auto calls = static_cast<int64_t>(1 + rng_.next_below(40));
  switch (fault) {
    case Fault::kKillTuner:
    case Fault::kKillStore:
      machine.die(Machine::Death::kKill, back);
      return true;
    case Fault::kTunerPower:
    case Fault::kStorePower:
      machine.die(Machine::Death::kPowerCut, back);
      return true;
    case Fault::kTunerTorn:
      machine.die_within(calls, back);
      return true;
    case Fault::kStoreTorn:
      machine.die_within(calls % 6 + 1, back);
      return true;
    case Fault::kTunerFull:
    case Fault::kStoreFull:
      if (machine.disk_full()) return false;
      machine.fill_disk(static_cast<int64_t>(rng_.next_below(3000)));
      timeline_.at(until, [&machine] { machine.free_disk(); });
      break;
    case Fault::kTunerClock:
    case Fault::kStoreClock: {  // by seconds or by years
      const Time by = seconds(std::pow(10, 8 * rng_.next_uniform()));
      machine.clock().set_wall(rng_.next_below(2) ? by : -by);
      return true;
    }
    case Fault::kTunerSleep:
    case Fault::kStoreSleep:
      machine.sleep(until - timeline_.now(), rng_.next_below(2) == 0);
      break;
    default:
      return false;
  }
  healed_ = std::max(healed_, until);
  return true;
}

// Resumed and brought back when all has healed, or by then.
bool Libraries::pause_or_drain(Fault fault, size_t store, Time until) {
  bool done = false;
  const std::string name = Collection::name_of(store);
  ask_tuner([&] {
    TunerService& service = tuner_->service();
    if (fault == Fault::kDrain) {
      service.drain(name, true);
      done = true;
    } else if (!service.jobs().empty() &&
               service.jobs().rbegin()->second.state == JobState::kRunning) {
      service.pause(service.jobs().rbegin()->first);
      done = true;
    }
  });
  if (!done) return false;
  timeline_.at(until, [this, fault, name] {
    ask_tuner([&] {
      TunerService& service = tuner_->service();
      if (fault == Fault::kDrain) return service.drain(name, false);
      for (const auto& [id, job] : service.jobs()) {
        if (job.state == JobState::kPaused) return service.resume(id);
      }
    });
  });
  return true;
}

}  // namespace ndtrain::sim
