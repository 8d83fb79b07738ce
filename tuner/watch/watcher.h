// A watch at work: looks at the labels now and then, on a lane of its own, and submits what is due.
// Lives on the service's thread.
#pragma once

#include <memory>
#include <string>

#include "tuner/service/service.h"
#include "tuner/watch/watch.h"
#include "tuner/watch/watch_labels.h"

namespace ndtrain::tuner {
using namespace ndp;

class Watcher {
 public:
  struct Setting {
    Fs& fs;
    Clock& clock;
    Lanes& lanes;
    size_t lane = 0;  // nobody else's
    TunerService& service;
    const Versions& versions;
    ModelStore& models;
    std::string jobs;    // directory of the Tuner's jobs
    std::string labels;  // url of the database; a connection of its own, once it exists
  };

  // All of the setting outlives the lane's tasks, as this does.
  Watcher(Setting setting, WatchRule rule) : setting_(setting), watch_(rule, setting.clock) {}

  void tick();
  std::string json() const { return watch_.json(); }
  const WatchRule& rule() const { return watch_.rule(); }

 private:
  bool trains(const JobRecord& job) const;  // the rule's task
  int64_t trained() const;  // Unix seconds: the newest training that was done was submitted
  Result<WatchObservation> see(const WatchQuery& query);  // on the lane
  std::string came_back() const;                          // see WatchObservation
  int64_t photos_here() const;                            // of the rule's stores, copies counted
  bool relabels(const JobRecord& job) const;  // the rule's task, and more than to try it
  Digest model_to_start_from(const std::optional<PublishedModel>& in_force);
  void start(std::function<Continuation()> f);
  void looked(WatchObservation observation, const std::optional<PublishedModel>& in_force);
  void submit(const JobSpec& spec);
  bool rests();  // its task was taken away
  void drop_model();

  Setting setting_;
  Watch watch_;
  std::unique_ptr<LabelDb> db_;  // the lane's
  bool working_ = false;
  std::string said_;
  std::optional<Digest> begun_from_;  // the file that the last training was given
};

}  // namespace ndtrain::tuner
