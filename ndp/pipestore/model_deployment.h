// Which versions are in force at a PipeStore, one of each task: the Tuner publishes one, its models
// are fetched and checked, and it takes the place of the one before, durably. Of a task that was
// taken away it publishes none: what is known in the task is forgotten, then nothing is in force of
// it. One thread, the service's; files are checked on the lane.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/pipestore/model_fetch.h"
#include "ndp/pipestore/row_jobs.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/wire/model_blobs.h"
#include "ndp/wire/tuner_connection.h"

namespace ndtrain::ndp {

// What runs on photos that are uploaded, say.
struct VersionInForce {
  uint64_t version = 0;  // 0: none
  std::optional<Digest> extractor, head;
};
using VersionsInForce = std::map<std::string, VersionInForce, std::less<>>;  // by task

class ModelDeployment {
 public:
  using Time = TunerConnection::Time;
  // Between two attempts to put a version in force.
  static constexpr Time kRetry = std::chrono::seconds(30);

  struct Ports {
    Fs& fs;
    Clock& clock;
    StateDirectory& state;
    Lanes& lanes;
    ModelBlobs& blobs;
    ModelFetch& models;
    TunerConnection& tuner;
    const RowJobs& jobs;          // whose models stay
    std::function<void()> go_on;  // calls advance(), and what else may wait
    std::function<void(const std::string& task)> changed = {};  // another version is in force
    UploadLog* log = nullptr;  // of what is known in tasks; null: nothing is
  };

  // What cannot be read, or whose files are not as they came, is not in force.
  explicit ModelDeployment(Ports ports);

  // One of the default task always; of others, those that have one.
  const VersionsInForce& in_force() const { return in_force_; }

  void publish(const wire::Publish& message);
  void advance();  // what waits for a model
  void model_failed();

  void tick();
  Time next() const { return retry_at_; }  // when tick() has something to do

 private:
  Time now() const { return ports_.clock.monotonic(); }
  std::string objection(const wire::Publish& message) const;
  void check();
  void put_in_force();
  void withdraw();
  void sweep(const VersionInForce& before);
  void say_in_force();

  const Ports ports_;
  VersionsInForce in_force_;
  VersionsInForce coming_;       // the first one's turn is now
  bool checking_ = false;        // its files, on the lane
  Time retry_at_ = Time::max();  // when it could not be kept
};

}  // namespace ndtrain::ndp
