// Two collections, two tasks and one Tuner, all from one seed: stores a and b have photos of the
// default collection, store c those of the garden. Tasks are fine-tuned and relabelled, by people
// and by rules that the Tuner watches; people upload photos, say what they show in either task, put
// them in the trash and delete them; ten faults strike. When all have healed, each task relabels
// each of its collections once more, and what there is must be what was promised.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/faults.h"
#include "tests/sim/store_machine.h"
#include "tests/sim/tuner_machine.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

// A task, and a collection that it labels.
using TaskOf = std::pair<std::string, std::string>;

class Libraries {
 public:
  static constexpr const char* kGarden = "garden";
  static constexpr const char* kBirds = "birds";

  Libraries(uint64_t seed, int faults, Bug bug = Bug::kNone);

  void run();

  const std::vector<std::string>& violations() const { return watch_.violations(); }
  const std::vector<std::string>& story() const { return story_; }
  size_t jobs() const { return jobs_; }          // that were done
  size_t versions() const { return versions_; }  // that were published
  size_t uploads() const { return taken_.size(); }
  size_t watched() const { return watched_; }  // jobs that rules submitted
  // Of what happened when, of the story, and of the files and the labels at the end: of two
  // programs that do the same, the same.
  uint64_t digest() const { return digest_; }

 private:
  struct Said {
    int64_t time = 0;
    std::string class_name;
  };

  // people
  void plan();
  void say_what_photos_show();
  std::string collection_of(size_t store) const { return stores_[store]->collection(); }
  size_t stores_of(const std::string& collection) const { return collection == kGarden ? 1 : 2; }
  JobSpec job(JobKind kind, const TaskOf& of, uint64_t seed) const;
  WatchRule rule() const;
  void look_after();
  void judge_failed_jobs();
  void look_at_jobs();
  bool was_full();  // a disk, since the last call
  void submit(const JobSpec& spec);
  bool calm() const { return faults_ == 0 && timeline_.now() >= healed_; }
  void relabel_at_last();
  void check_stores();
  void check_version(uint64_t number, const std::string& task, const std::string& what);
  void use_uploads();
  void use_upload(size_t store, const Digest& photo);
  void use_trash(const Digest& photo, bool put);
  void ask_tuner(const std::function<void()>& what);
  bool over() const;
  // What is still to come when nothing goes wrong any more; "": nothing.
  std::string unsettled() const;
  std::string unsettled(const StoreMachine& store) const;

  // faults (libraries_faults.cpp)
  void strike();
  bool apply(Fault fault, size_t store);
  bool apply_to(Machine& machine, Fault fault, Time back, Time until);
  bool pause_or_drain(Fault fault, size_t store, Time until);

  // what must be so (libraries_check.cpp)
  void check();
  using History = std::vector<LabelRow>;
  class Histories;
  void check_photos(Histories& histories);
  void check_labels(Histories& histories, const Digest& photo,
                    const std::set<std::string>& collections);
  bool says(const PublishedModel& version, const Digest& photo, const std::string& name) const;
  void check_labels(const History& labels, const std::string& task, const Digest& photo, bool may);
  void check_uploads(Histories& histories);
  void check_upload(Histories& histories, const StoreMachine& store, const Digest& photo);
  bool is_out(const Digest& photo) const;  // deleted, or in the trash
  uint64_t digest_of_all() const;
  void violation(const std::string& what) { watch_.violation(what); }
  void tell(const std::string& what);

  Rng rng_, people_;
  int faults_;  // that are still to strike
  Collection collection_;
  Collection first_;  // as it was before photos went
  support::TemporaryDirectory directory_;
  const std::string url_;
  Timeline timeline_;
  Watch watch_;
  Network network_;
  std::unique_ptr<TunerMachine> tuner_;
  std::vector<std::unique_ptr<StoreMachine>> stores_;

  std::set<TaskOf> labels_;      // that belong together
  std::vector<JobSpec> coming_;  // jobs, one behind the other
  size_t next_ = 0;
  std::map<TaskOf, uint64_t> last_;  // by which version it was relabelled when all had healed
  // What was answered.
  std::map<Digest, size_t> taken_;  // by whom
  std::map<std::pair<Digest, std::string>, Said> said_;
  std::map<Digest, bool> deleted_;                 // whether the Tuner has answered
  std::map<Digest, std::optional<bool>> trashed_;  // in the trash or not; or the answer got lost

  std::vector<std::string> story_;
  size_t jobs_ = 0, versions_ = 0, watched_ = 0;
  uint64_t digest_ = 0, labels_digest_ = 0;
  std::set<std::pair<uint64_t, int64_t>> judged_;  // jobs, and when they ended
  Time healed_{0};                                 // no fault lasts longer
  Time slept_{0};                                  // by stores
  // Of each store, fewer than lose it for a job when they come one behind the other.
  std::array<int, Collection::kStores> corruptions_ = {};
};

}  // namespace ndtrain::sim
