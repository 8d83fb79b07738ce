// A Tuner without stores that watches a label database, in which a person has said what a photo
// shows: a fine-tuning is due, of a model that the Tuner takes in first.
#pragma once

#include <string>
#include <vector>

#include "tests/sim/tuner_machine.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

class WatchedLabels {
 public:
  WatchedLabels();

  Machine& tuner() { return tuner_; }

  // Until some time after it was submitted.
  void run();
  const std::vector<std::string>& violations() const { return watch_.violations(); }

 private:
  void check();

  support::TemporaryDirectory directory_;
  Timeline timeline_;
  Watch watch_;
  Network network_;
  TunerMachine tuner_;
};

}  // namespace ndtrain::sim
