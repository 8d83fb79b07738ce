// Which version is in force at a PipeStore: the Tuner publishes one, its models are fetched and
// checked, and it takes the place of the one before, durably. One thread, the service's; files are
// checked on the lane.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/pipestore/model_fetch.h"
#include "ndp/pipestore/row_jobs.h"
#include "ndp/wire/model_blobs.h"
#include "ndp/wire/tuner_connection.h"

namespace ndtrain::ndp {

// What runs on photos that are uploaded, say.
struct VersionInForce {
  uint64_t version = 0;  // 0: none
  std::optional<Digest> extractor, head;
};

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
    const RowJobs& jobs;                 // whose models stay
    std::function<void()> go_on;         // calls advance(), and what else may wait
    std::function<void()> changed = {};  // another version is in force
  };

  // What cannot be read, or whose files are not as they came, is not in force.
  explicit ModelDeployment(Ports ports);

  const VersionInForce& in_force() const { return in_force_; }

  void publish(const wire::Publish& message);
  void advance();  // what waits for a model
  void model_failed();

  void tick();
  Time next() const { return retry_at_; }  // when tick() has something to do

 private:
  Time now() const { return ports_.clock.monotonic(); }
  void check();
  void put_in_force();
  void sweep(const VersionInForce& before);

  const Ports ports_;
  VersionInForce in_force_;
  std::optional<VersionInForce> coming_;
  bool checking_ = false;        // its files, on the lane
  Time retry_at_ = Time::max();  // when it could not be kept
};

}  // namespace ndtrain::ndp
