// What stores say of photos that people upload to them, on its way into the label database, and
// where people may upload. A store is told that its lines are kept when they are durable. One
// thread, the service's; the database is asked on the upload lane.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/http/audit.h"
#include "tuner/jobs/job_records.h"
#include "tuner/models/versions.h"
#include "tuner/service/photo_deletions.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/photo_trash.h"
#include "tuner/service/store_registry.h"
#include "tuner/service/upload_queues.h"
#include "tuner/service/uploaded_labels.h"

namespace ndtrain::tuner {
using namespace ndp;

class UploadIngest {
 public:
  using Time = StoreRegistry::Time;

  struct Ports {
    Clock& clock;
    Lanes& lanes;
    StoreRegistry& stores;
    const JobRecords& records;
    PhotoDeletions& deletions;
    PhotoTrash& trash;
    PhotoHolders& holders;
    const Versions& versions;
    UploadSink* uploads = nullptr;  // null: nothing is taken
    AuditLog* audit = nullptr;      // of what stores say
  };
  explicit UploadIngest(const Ports& ports) : ports_(ports) {}

  void take(const std::string& store, const wire::Uploads& message);
  // What it says of itself: where people may upload to it, and how much.
  void take_space(const std::string& store, const wire::Space& space);
  // A store of the collection that is here, takes uploads and has the most room; null when there is
  // none.
  const StoreRecord* place(const std::string& collection);

  void pump();
  // When pump() has something to do; Time::max() for never.
  Time next() const { return stopping_ ? Time::max() : queues_.wakes(); }
  void stop() { stopping_ = true; }

 private:
  Time now() const { return ports_.clock.monotonic(); }
  std::vector<JobFiles> earlier_records();
  void leave_out_removed_tasks(UploadBatch& batch) const;
  void judge(const std::map<Digest, std::set<std::string>>& recorded);
  Result<bool> may_speak_of(const std::string& store, const Digest& photo, bool nobodys) const;
  AuditLine audit_of(const std::string& store, const wire::Upload& line) const;
  void keep();
  void failed(const Status& status);
  void kept();

  const Ports ports_;
  UploadQueues queues_;            // not durable yet
  std::set<std::string> waiting_;  // of these stores: the last attempt failed
  bool recalled_ = false;          // what jobs of an earlier process know of who holds what
  bool stopping_ = false;
};

}  // namespace ndtrain::tuner
