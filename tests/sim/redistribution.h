// One version after the other reaches three PipeStores, under faults, all from one seed. No job:
// somebody publishes models, and sometimes goes back to the one before.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/faults.h"
#include "tests/sim/store_machine.h"
#include "tests/sim/tuner_machine.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

class Redistribution {
 public:
  Redistribution(uint64_t seed, Bug bug = Bug::kNone);

  // Whole model files, as versions have them. Heads of neighbouring versions differ by a small
  // step.
  static const std::string& extractor();
  static std::string head(uint64_t version);

  // `versions` are published, faults strike; ends when every store has the last one.
  void run(uint64_t versions, int faults);
  // Nothing goes wrong but that store 2 is away from version 1 to the last.
  void run_with_one_away(uint64_t versions);
  // Nothing goes wrong but what is done to machine(): every store has a version of a task in force,
  // and store 0 an upload that it labels; then the task is taken away, until nobody knows of it.
  void run_with_task_taken_away();

  Machine& machine(size_t which);  // 0 is the Tuner, then the stores

  const std::vector<std::string>& violations() const { return watch_.violations(); }
  const std::vector<std::string>& story() const { return story_; }
  uint64_t bytes_sent(size_t store) const { return watch_.model_bytes.at(store); }
  uint64_t ways() const { return watch_.ways; }          // given to stores
  uint64_t chains() const { return watch_.chains; }      // of more than one delta
  uint64_t failures() const { return watch_.failures; }  // of them, as stores said

 private:
  void until(Time end, const std::function<bool()>& over);
  void publish_next();
  void strike();
  bool apply(Fault fault, size_t store);
  bool rot(size_t store);
  bool everybody_has(uint64_t version, const std::string& task = std::string(kDefaultTask)) const;
  bool labels_upload(const std::string& task) const;  // store 0, its first
  void publish_or_take_away(const std::string& task);
  void check_files();
  void tell(const std::string& what);

  Rng rng_;
  Collection collection_;
  Timeline timeline_;
  Watch watch_;
  Network network_;
  std::unique_ptr<TunerMachine> tuner_;
  std::vector<std::unique_ptr<StoreMachine>> stores_;
  std::vector<std::string> story_;
  std::set<std::pair<size_t, std::string>> rotten_;  // files, by store
  uint64_t published_ = 0, versions_ = 0;
  int faults_ = 0;
  Time healed_{0};
};

}  // namespace ndtrain::sim
