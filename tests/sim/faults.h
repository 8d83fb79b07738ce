// What can go wrong in a simulation, and how often it did while the job was where.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/sim/watch.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

enum class Fault {
  kBreak,         // of a stream, the two ends having seen different parts
  kDelay,         // of what is under way
  kPartition,     // of one store
  kPartitionAll,  // of the Tuner
  kReplay,        // a message of an earlier term comes late
  kCorrupt,       // rows change on the way
  kKillTuner,     // SIGKILL
  kTunerPower,    // power cut
  kTunerTorn,     // power cut inside a call to the disk
  kStopTuner,     // SIGTERM
  kKillStore,
  kStorePower,
  kStoreTorn,
  kStopStore,
  kTunerFull,  // disk, freed later
  kStoreFull,
  kPhotoGone,   // of a store, where another has a copy
  kLostStore,   // for ever
  kPause,       // a person pauses the job, and resumes it later
  kDrain,       // a person takes a store out of the job, and back later
  kTunerClock,  // on the wall, is set
  kStoreClock,
  kTunerSleep,  // suspended, for minutes perhaps
  kStoreSleep,
  kOldTuner,   // answers a store: one of an earlier term
  kTwinTuner,  // or of the same one
  kFaults
};

std::string_view name_of(Fault fault);
std::string_view name_of(Stage stage);

struct Coverage {
  std::array<std::array<uint64_t, static_cast<size_t>(Fault::kFaults)>,
             static_cast<size_t>(Stage::kStages)>
      counts = {};

  void add(Stage stage, Fault fault) {
    ++counts[static_cast<size_t>(stage)][static_cast<size_t>(fault)];
  }
  void add(const Coverage& other);
  std::string text() const;  // a table: a line per fault, a column per stage
};

}  // namespace ndtrain::sim
