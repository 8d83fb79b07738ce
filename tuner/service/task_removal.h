// Tasks that people take away. First it is written down that one is gone, with its versions; then
// the stores stop labelling by it, when they are here, and its labels leave the database, when that
// can be asked: also after a restart. One thread, the service's; the database is asked on the
// upload lane, behind what stores said in the task before.
#pragma once

#include <functional>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "tuner/jobs/job_records.h"
#include "tuner/models/versions.h"
#include "tuner/service/uploaded_labels.h"

namespace ndtrain::tuner {
using namespace ndp;

class TaskRemoval {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr Time kRetry = std::chrono::seconds(2);

  struct Ports {
    Clock& clock;
    Lanes& lanes;
    const JobRecords& records;
    Versions& versions;
    UploadSink* uploads = nullptr;  // null: there are no labels
    std::function<void()> removed;  // a task is: stores hear of it, and its files go
  };
  explicit TaskRemoval(Ports ports) : ports_(std::move(ports)) {}

  // Why it cannot be taken away; "": it can.
  std::string objection(const std::string& task) const;
  // Durable on return. Throws Error: the objection, or that it cannot be kept.
  void remove(const std::string& task);

  void pump();
  Time next() const { return working_ || stopping_ ? Time::max() : again_; }
  void stop() { stopping_ = true; }

 private:
  const Ports ports_;
  bool working_ = false;  // on the lane
  bool stopping_ = false;
  Time again_{0};  // when the database is asked; max: it has nothing more of any
};

}  // namespace ndtrain::tuner
