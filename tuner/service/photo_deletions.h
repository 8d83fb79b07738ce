// Photos that people deleted: every store hears of each, and the Tuner lets go of what it has. One
// thread, the service's; what takes long is done on the upload lane.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/core/lanes.h"
#include "tuner/jobs/done_traces.h"
#include "tuner/jobs/job_records.h"
#include "tuner/service/deletion_log.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/store_registry.h"
#include "tuner/service/uploaded_labels.h"

namespace ndtrain::tuner {
using namespace ndp;

class PhotoDeletions {
 public:
  using Time = StoreRegistry::Time;

  struct Ports {
    Fs& fs;
    std::string directory;  // of the state
    Clock& clock;
    Lanes& lanes;
    StoreRegistry& stores;
    const JobRecords& records;
    UploadSink* uploads = nullptr;
    PhotoHolders* holders = nullptr;
    std::function<Status(const std::set<Digest>&)> forget_features = {};
    std::function<bool()> idle;  // no job is in progress, and no task of one is out
  };
  // Throws Error when the list cannot be read.
  explicit PhotoDeletions(Ports ports);

  struct Deletion {
    std::vector<std::string> told, away;  // stores
  };
  // Photos are removed wherever they are, with all that was made of them, and not taken in again;
  // by stores that are away when they are back. Durable on return; the rest follows. Throws Error.
  Deletion remove(std::span<const Digest> photos);
  Status add(std::span<const Digest> photos);  // the same

  bool has(const Digest& photo) const { return log_.has(photo); }
  uint64_t size() const { return log_.size(); }
  uint64_t due(const StoreRecord& store) const { return log_.size() - store.deletions; }

  // A store's session begins; it is told what it has not heard of.
  void greet(const wire::Hello& hello);
  // A store has let go of so many.
  void let_go(const std::string& store, uint64_t count);

  void pump();                                     // before another job begins
  void job_gone(uint64_t id) { done_.erase(id); }  // no task on the lane looks into it
  Time next() const;  // when pump() has something to do; Time::max() for never
  bool forgetting() const { return forgetting_; }
  // Files of jobs have some of what was deleted: until no job is in progress.
  bool leaves_traces() const { return log_.size() > log_.forgotten(); }
  void stop() { stopping_ = true; }

 private:
  struct Told {
    uint64_t count = 0;
    bool understands = false;
  };
  // A job whose files photos leave.
  struct Forgetting {
    JobFiles files;
    DoneTraces* traces = nullptr;  // of one that is done
    JobRecord record = {};         // of one whose record may have to be saved
  };
  std::vector<Forgetting> all_jobs();
  Time now() const { return ports_.clock.monotonic(); }
  void tell(const std::string& store);
  void forgotten(uint64_t count, bool whole, Status status);

  const Ports ports_;
  DeletionLog log_;
  std::map<std::string, Told> told_;     // of the stores' sessions
  std::map<uint64_t, DoneTraces> done_;  // by job; the task's while one is out
  uint64_t labels_forgotten_ = 0;        // of log_; by this process
  bool forgetting_ = false;              // a task is out
  bool stopping_ = false;
  Time forget_at_{0};  // not 0: the last attempt failed
};

}  // namespace ndtrain::tuner
