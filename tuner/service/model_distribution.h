// Versions of the model, and how their files get to the stores: whole, in parts, or as deltas to
// what a store holds, of which one is made at a time. One thread, the service's; deltas are made on
// a lane of their own.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/http/audit.h"
#include "tuner/jobs/job_records.h"
#include "tuner/models/delta_graph.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

class ModelDistribution {
 public:
  // Of which the files are kept, besides those that are needed.
  static constexpr size_t kKeptVersions = 24;

  struct Ports {
    Clock& clock;
    Lanes& lanes;
    StoreRegistry& stores;
    const JobRecords& records;
    ModelStore& models;
    Versions& versions;
    AuditLog* audit = nullptr;               // of versions that jobs put in force
    std::function<bool()> idle;              // no job is in progress, and no task of one is out
    std::function<void()> removed;           // a version was, with what only it needed
    std::function<void(uint64_t)> sent_for;  // bytes, for the job in progress
  };
  explicit ModelDistribution(const Ports& ports) : ports_(ports), deltas_(ports.models) {}

  // What a store asks for, and what it has in force from now on.
  void wanted(const std::string& store, const wire::ModelWanted& wanted);
  void in_force(const std::string& store, const wire::InForce& in_force);
  // A relabelling is of a task and a collection that belong together from now on, so new photos are
  // labelled as well.
  void submitted(const JobSpec& spec);
  // Tells it what is in force of each task of its collection, where it has something else; and
  // that nothing is of one that was taken away.
  void publish_to(const std::string& store);

  // A model becomes the next version, the candidate, and what is in force if it is to be; once for
  // each job. Its files are in the ModelStore. Throws Error, as do the others that people ask for.
  PublishedModel publish(PublishedModel model, bool production);
  void promote(uint64_t version);  // it is in force from now on
  void set_candidate(uint64_t version);
  // To what was in force of the task before; which that is.
  uint64_t rollback(const std::string& task);
  void remove(uint64_t version);  // not one that an alias or a store that is here needs
  void task_removed();            // stores have its version in force no more

  // Versions that nobody needs any more go, and files that are only theirs.
  void collect();
  void stop() { stopping_ = true; }

 private:
  struct Ask {
    std::string store;  // "": nobody waits for it
    LinkId link = 0;
    wire::ModelWanted wanted;
    std::optional<ModelPair> pair;  // a delta to be made before it is answered
  };
  static constexpr size_t kMostAsks = 8;  // of one store, that wait to be answered

  std::string objection(const std::string& store, std::optional<LinkId> link) const;
  void answer_asks();
  void answer(const Ask& ask);
  void send_parts(const std::string& store, const wire::ModelWanted& wanted);
  void publish_to_all();
  void send_publish(const StoreRecord& store, const PublishedModel& model);
  void now_in_force(const PublishedModel& model);
  void record_promotion(const PublishedModel& model);
  bool remove_old_versions();  // false: one could not be
  bool is_needed(const PublishedModel& model) const;

  const Ports ports_;
  DeltaGraph deltas_;
  std::deque<Ask> asks_;  // in order
  bool making_ = false;   // the first one's delta
  bool collect_ = false;  // once no job needs any
  bool stopping_ = false;
};

}  // namespace ndtrain::tuner
