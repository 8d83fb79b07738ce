// Who did what when in one job: what a job reports of its time, and a trace of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/json_fwd.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::tuner {

class JobReport {
 public:
  using Time = std::chrono::nanoseconds;  // of a monotonic clock

  struct Counts {
    uint64_t photos = 0;   // of the job
    uint64_t durable = 0;  // whose rows are here
    uint64_t row_bytes = 0;
    uint64_t model_bytes = 0;
    double network_s = 0;  // of network_seconds()
  };

  void begin(Time now) { begun_ = now; }
  void photos(uint64_t photos, uint64_t durable);
  // A store has listed and hashed its photos, in so many seconds.
  void surveyed(const std::string& store, double seconds) { surveys_[store] += seconds; }
  void rows(Time now, const std::string& store, uint32_t run, uint64_t bytes);
  void kept(uint64_t rows) { counts_.durable += rows; }
  void model_part(uint64_t bytes) { counts_.model_bytes += bytes; }
  void run_done(const std::string& store, const wire::RunDone& done);
  void complete(Time now, uint32_t run);
  // The job's own work on what it has: "run 1", "finish". `joules`: what the Tuner's processors and
  // GPUs used meanwhile, where they can be asked.
  void work(const std::string& what, Time from, Time to, std::optional<double> joules = {});
  // What they used while there was no such work.
  void waited(std::optional<double> joules) { spend(joules); }
  void end(Time now) { ended_ = now; }

  Counts counts() const;
  // Seconds by run that the network took, of runs of which a store has made all that it was asked
  // for: of the slowest store, what it did not make rows in between its first row's arrival here
  // and its last one's.
  std::map<uint32_t, double> network_seconds() const;
  std::map<std::string, uint64_t> row_bytes_of_stores() const;  // that sent rows
  // NDPipe's figures and the rest, as a JSON object: seconds from the job's begin, bytes.
  std::string json() const;
  // The same as a trace that Chrome and Perfetto show.
  std::string trace() const;

 private:
  struct Span {
    std::string who, what;
    Time from{0}, to{0};
    std::optional<double> joules;
  };
  void spend(std::optional<double> joules) {
    if (joules) joules_ = joules_.value_or(0) + *joules;
  }
  struct Extraction {
    Time first{0}, last{0};  // when its rows came
    uint64_t bytes = 0;      // of these
    bool done = false;
    uint64_t photos = 0;
    double busy = 0;  // seconds
    double survey = 0;
    std::optional<double> joules;
    std::map<std::string, double> stages;
    std::map<std::string, uint64_t> made_from;
  };
  Json runs() const;  // those that are complete
  double at(Time t) const { return std::chrono::duration<double>(t - begun_).count(); }

  Time begun_{0}, ended_{0};
  std::optional<double> joules_;  // the Tuner's, of the whole job
  Counts counts_;
  std::map<std::pair<std::string, uint32_t>, Extraction> extractions_;  // by store and run
  std::map<std::string, double> surveys_;                               // by store
  std::map<uint32_t, Time> complete_;
  std::vector<Span> work_;
};

}  // namespace ndtrain::tuner
