// Whom a job waits for before it begins, and when people hear of it: once it has waited for two
// seconds, from then on at once when it is for others than before, else every few seconds, and less
// often the longer it waits. One thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tuner/jobs/job_spec.h"
#include "tuner/jobs/store_choice.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

class StoreWait {
 public:
  using Time = std::chrono::nanoseconds;

  // Whether people should hear of it now.
  bool wait(Time now, StoreChoice choice);
  void end() { said_.clear(); }

  bool waits() const { return !said_.empty(); }
  const std::string& text() const { return said_; }  // "": it does not wait
  const StoreChoice& choice() const { return choice_; }

 private:
  StoreChoice choice_;
  std::string said_, said_of_;
  Time say_at_{0}, since_{0};
};

// How the stores of the job's collection stand that are known; `ready`: have said what they hold,
// in byte order.
std::vector<StoreStatus> standing(const StoreRegistry& stores, const JobSpec& spec,
                                  const std::vector<std::string>& ready);

// Why a job cannot begin with these stores; "" when it can, or may wait.
std::string objection(const JobSpec& spec, const StoreChoice& choice, const StoreRegistry& stores);

}  // namespace ndtrain::tuner
