// The faults of a simulation.
#include <cmath>

#include "tests/sim/simulation.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

// All together shorter than stores may be away; a Tuner may sleep for longer.
constexpr Time kStoreNaps = seconds(400), kTunerNap = seconds(1200);

Time nap(Rng& rng, Time longest) {
  return rng.next_below(2) ? seconds(30 * rng.next_uniform())
                           : Time(static_cast<int64_t>(static_cast<double>(longest.count()) *
                                                       rng.next_uniform()));
}

}  // namespace

Stage Simulation::stage() {
  if (!tuner_->alive()) return Stage::kDown;
  const JobRecord* job = last_job();
  return job && job->state == JobState::kDone ? Stage::kDone : watch_.stage;
}

Fault Simulation::draw() {
  return static_cast<Fault>(rng_.next_below(static_cast<uint64_t>(Fault::kFaults)));
}

void Simulation::strike() {
  const Stage where = stage();
  const size_t store = rng_.next_below(Collection::kStores);
  Fault fault = draw();
  while (!apply(fault, store)) fault = draw();
  coverage_.add(where, fault);
  tell(std::string(name_of(fault)) + " (" + Collection::name_of(store) + "), " +
       std::string(name_of(where)));
  // Sometimes in a row, sometimes when the last one has healed.
  if (--faults_ > 0) {
    const double wait = rng_.next_below(4) == 0 ? 20 : rng_.next_below(3) == 0 ? 0.2 : 5;
    timeline_.after(seconds(wait * rng_.next_uniform()), [this] { strike(); });
  }
}

bool Simulation::apply(Fault fault, size_t s) {
  StoreMachine& store = *stores_[s];
  const Time back = seconds(0.1 + 20 * rng_.next_uniform() * rng_.next_uniform());
  const auto calls = static_cast<int64_t>(1 + rng_.next_below(60));
  const auto slack = static_cast<int64_t>(rng_.next_below(3000));
  const Time until = timeline_.now() + seconds(1 + 40 * rng_.next_uniform() * rng_.next_uniform());
  // Or after so short a time that messages of before are still under way.
  const Time soon = rng_.next_below(2) ? until : timeline_.now() + seconds(rng_.next_uniform());
  const auto lasting = [&] { healed_ = std::max(healed_, until); };
  const auto free_later = [&](Machine& machine) {
    machine.fill_disk(slack);
    lasting();
    timeline_.at(until, [&machine] { machine.free_disk(); });
    return true;
  };
  switch (fault) {
    case Fault::kBreak:
      return network_.break_link(s);
    case Fault::kDelay:
      return network_.delay(s, timeline_.now() + seconds(12 * rng_.next_uniform()));
    case Fault::kPartition:
      lasting();
      network_.part(s, until);
      return true;
    case Fault::kPartitionAll:
      lasting();
      for (size_t i = 0; i < Collection::kStores; ++i) network_.part(i, until);
      return true;
    case Fault::kReplay:
      return network_.replay(s);
    case Fault::kCorrupt:
      return corruptions_ < 2 && network_.corrupt_next_rows(s) && ++corruptions_ > 0;
    case Fault::kKillTuner:
      if (!tuner_->up()) return false;
      tuner_->die(Machine::Death::kKill, back);
      return true;
    case Fault::kTunerPower:
      if (!tuner_->up()) return false;
      tuner_->die(Machine::Death::kPowerCut, back);
      return true;
    case Fault::kTunerTorn:
      if (!tuner_->up()) return false;
      tuner_->die_within(calls, back);
      return true;
    case Fault::kStopTuner:
      if (!tuner_->up()) return false;
      tuner_->stop(back);
      return true;
    case Fault::kKillStore:
      if (!store.up()) return false;
      store.die(Machine::Death::kKill, back);
      return true;
    case Fault::kStorePower:
      if (!store.up()) return false;
      store.die(Machine::Death::kPowerCut, back);
      return true;
    case Fault::kStoreTorn:
      if (!store.up()) return false;
      store.die_within(calls % 6 + 1, back);
      return true;
    case Fault::kStopStore:
      if (!store.up()) return false;
      store.stop(back);
      return true;
    case Fault::kTunerFull:
      if (tuner_->disk_full()) return false;
      return free_later(*tuner_);
    case Fault::kStoreFull:
      if (store.disk_full()) return false;
      return free_later(store);
    case Fault::kPhotoGone:
      return collection_.remove(s, rng_.next_below(Collection::kPhotos));
    case Fault::kLostStore:
      if (lost_ < Collection::kStores || rng_.next_below(4) > 0) return false;
      lost_ = s;
      store.lose();
      return true;
    case Fault::kPause:
      return pause(soon);
    case Fault::kDrain:
      return drain(Collection::name_of(s), soon);
    case Fault::kTunerClock:
      set_clock(*tuner_);
      return true;
    case Fault::kStoreClock:
      set_clock(store);
      return true;
    case Fault::kTunerSleep:
      return sleep(*tuner_, nap(rng_, kTunerNap));
    case Fault::kStoreSleep: {
      const Time duration = nap(rng_, kStoreNaps);
      if (slept_ + duration > kStoreNaps || !sleep(store, duration)) return false;
      slept_ += duration;
      return true;
    }
    case Fault::kOldTuner:
      if (!network_.old_tuner(s, until)) return false;
      lasting();
      return true;
    case Fault::kTwinTuner:
      if (!network_.twin_tuner(s, until)) return false;
      lasting();
      return true;
    case Fault::kFaults:
      break;
  }
  return false;
}

bool Simulation::sleep(Machine& machine, Time duration) {
  if (!machine.awake()) return false;
  healed_ = std::max(healed_, timeline_.now() + duration);
  machine.sleep(duration, rng_.next_below(2) == 0);
  return true;
}

// By seconds or by years.
void Simulation::set_clock(Machine& machine) {
  const Time by = seconds(std::pow(10, 8 * rng_.next_uniform()));
  machine.clock().set_wall(rng_.next_below(2) ? by : -by);
}

bool Simulation::pause(Time until) {
  bool paused = false;
  ask_tuner([&] {
    const JobRecord* job = last_job();
    if (!job || job->state != JobState::kRunning) return;
    tuner_->service().pause(job->id);
    paused = true;
  });
  if (!paused) return false;
  paused_until_ = until;
  timeline_.at(until, [this] { ask_tuner([this] { look_at_jobs(); }); });
  return true;
}

// And once more when it has just been asked what it holds.
bool Simulation::drain(const std::string& store, Time until) {
  bool drained = false;
  ask_tuner([&] {
    tuner_->service().drain(store, true);
    drained = true;
  });
  if (!drained) return false;
  const auto back_at = [this, store](Time when, bool again) {
    healed_ = std::max(healed_, when);
    drained_until_[store] = std::max(drained_until_[store], when);
    timeline_.at(when, [this, store, again] {
      ask_tuner([&] {
        if (again) tuner_->service().drain(store, true);
        tuner_->service().drain(store, false);
      });
    });
  };
  back_at(until, false);
  back_at(until + seconds(rng_.next_uniform()), true);
  return true;
}

}  // namespace ndtrain::sim
