// Labels of photos in RADOS, written on their objects as xattrs, where other clients of Ceph read
// them: "ndtrain.label", and of other tasks than the default one "ndtrain.label.TASK", each
//   {"label":"rose","score":0.93,"sha256":"5f70…","version":3}
// They are those of the version in force, of photos that this store lists: what its jobs make, and
// what its log has of photos that people upload or put there. They are written on objects that are
// still what the list of photos says, and once; what is there already is not written again.
//
// Thread-safe, but for step().
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "framework/core/clock.h"
#include "ndp/photos/catalogue.h"
#include "ndp/pipestore/job_labels.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/rados/rados_fs.h"

namespace ndtrain::ndp {

class ObjectLabels {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr Time kSoon = std::chrono::seconds(5);
  // Behind a scan, which tells of photos before the catalogue has them.
  static constexpr Time kOnceMore = std::chrono::seconds(60);
  static constexpr Time kRetry = std::chrono::seconds(10);
  static constexpr Time kPatience = std::chrono::minutes(10);  // with labels of jobs that wait
  static constexpr size_t kMostWaiting = 65'536;               // labels of jobs

  struct Setting {
    std::string photos;  // rados://…
    RadosFs& rados;
    const UploadLog& log;
    Clock& clock;
  };
  struct Counts {
    uint64_t written = 0;  // or there already
    uint64_t lost = 0;     // of jobs, that waited for too long, or while too many did
    size_t waiting = 0;    // of jobs
  };

  // `catalogue`: of the store's photos, for this alone.
  ObjectLabels(Setting setting, std::unique_ptr<Catalogue> catalogue);

  // A version labels the photos of a task; 0: none does. `model`: as JobLabels has it.
  void put_in_force(const std::string& task, uint64_t version, const std::string& model);
  // Written when it returns. Those of a model that is not in force as yet, and those whose objects
  // cannot be written now, wait in memory.
  void take(JobLabels labels);
  // The log has new labels, or the catalogue new photos.
  void look();
  Counts counts() const;

  // Does what is due, and says when there is more.
  Time step();

 private:
  struct InForce {
    uint64_t version = 0;
    std::string model;
  };
  struct Label {
    Digest photo{};
    std::string path, task, name;
    float score = 0;
    uint64_t version = 0;
    uint64_t inode = 0;  // of labels of the log
  };
  using AllInForce = std::map<std::string, InForce>;  // by task

  AllInForce in_force() const;
  void look_at(Time due);
  void retry_waiting();
  bool look_at_all();
  std::vector<Label> labels_in_log(const CatalogueEntry& e, const AllInForce& in_force);
  // Of each, in order. kNotFound: the photo is there no more; kUnavailable: later.
  std::vector<Status> write(std::span<const Label> labels);
  void send(std::span<const FileAttributes> files, std::span<const std::vector<size_t>> labels,
            std::vector<Status>& said);
  void take(JobLabels labels, Time until);
  void wait(JobLabels labels, Time until);

  const Setting setting_;
  std::mutex catalogue_mutex_;
  const std::unique_ptr<Catalogue> catalogue_;

  mutable std::mutex mutex_;  // of all below
  AllInForce in_force_;
  std::deque<std::pair<Time, JobLabels>> waiting_;  // until when
  size_t waiting_photos_ = 0;
  std::unordered_set<uint64_t> written_;  // label_hash() of those of the log
  std::optional<Time> due_, once_more_;   // looks at all
  Time retry_at_ = Time::max();           // of what waits
  bool denied_ = false;                   // the user may not write
  uint64_t count_ = 0, lost_ = 0;
};

}  // namespace ndtrain::ndp
