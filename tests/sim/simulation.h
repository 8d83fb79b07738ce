// A fine-tuning and then a relabelling of a Tuner and three PipeStores, with ten faults and three
// more when the second begins, all from one seed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/faults.h"
#include "tests/sim/store_machine.h"
#include "tests/sim/tuner_machine.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

// How a simulation ended.
struct Ending {
  std::vector<std::string> violations;  // empty: as it should have
  bool done = false;                    // the fine-tuning; else it failed or waits, rightly
  bool labelled = false;                // the relabelling after it
  bool whole = false;                   // and without a photo missing
  bool lost_store = false;
  bool all_took_part = false;  // in the fine-tuning; one that was lost before it began did not
  std::string weights;         // of a job that is done: what decides its bytes
  uint64_t rows = 0;           // of photos in its spool
  uint64_t repeats = 0;
  Time took{0};
  Coverage coverage;
  std::vector<std::string> story;  // the faults, and what people were told
};

class Simulation {
 public:
  static constexpr int kFaults = 10, kLateFaults = 3;

  Simulation(uint64_t seed, int faults, Bug bug = Bug::kNone);

  Ending run();

  Machine& machine(size_t which);  // 0 is the Tuner, then the stores

 private:
  bool everybody_well() const;
  void tell(const std::string& what);
  void ask_tuner(const std::function<void()>& what);  // as a person does

  // faults
  void strike();
  bool apply(Fault fault, size_t store);
  bool pause(Time until);
  bool drain(const std::string& store, Time until);
  bool sleep(Machine& machine, Time duration);
  void set_clock(Machine& machine);
  Fault draw();
  Stage stage();

  // People at the stores, until the job is done.
  void upload();
  void remove_upload(size_t store, uint64_t photo);
  bool uploads_heard() const;
  bool deletions_heard() const;
  void use_trash();
  bool trash_heard() const;
  void check_trash();
  void check_uploads();

  // The person in front of the Tuner.
  void look_after();
  void look_at_jobs();
  const JobRecord* last_job() const;  // of a Tuner that is up; null: there is none
  void look_at_stores();
  void judge_failure(const JobRecord& job);
  bool only_on_lost() const;

  void check_result(Ending& ending);
  bool over();

  uint64_t seed_;
  int faults_;  // that are still to strike
  bool disturbed_;
  Bug bug_;
  Rng rng_, upload_rng_, trash_rng_;
  Collection collection_;
  Timeline timeline_;
  Watch watch_;
  Network network_;
  std::unique_ptr<TunerMachine> tuner_;
  std::vector<std::unique_ptr<StoreMachine>> stores_;
  // What was answered: store and photo -> what was said last.
  std::map<std::pair<size_t, uint64_t>, uint64_t> uploaded_;
  std::map<Digest, bool> deleted_;  // whether the Tuner has answered
  // Whether it is in the trash, by the last answer; of one that nobody got, or that was uploaded
  // again, nobody knows.
  std::map<Digest, std::optional<bool>> trashed_;
  uint64_t uploads_ = 0;
  Coverage coverage_;
  std::vector<std::string> story_;
  size_t lost_ = Collection::kStores;  // which one is
  int corruptions_ = 0;
  Time slept_{0};         // by stores
  Time healed_{0};        // no fault lasts longer
  Time paused_until_{0};  // the job, if it is
  std::map<std::string, Time> drained_until_;
  int64_t judged_ = 0;     // when the last failure was that was looked at
  bool given_up_ = false;  // the job has failed rightly
  bool allow_missing_ = false;
};

// Runs `seed`, and compares with the same photos' undisturbed job.
Ending simulate(uint64_t seed, Bug bug = Bug::kNone);

}  // namespace ndtrain::sim
