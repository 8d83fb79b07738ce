// What Uploads does at a PipeStore (ndp/pipestore/uploads.h, which has threads), with photos that
// are only digests: a photo is labelled by the version in force of each task, as it comes or, where
// there is none yet, later.
#pragma once

#include <string>
#include <vector>

#include "ndp/pipestore/model_deployment.h"
#include "ndp/pipestore/store_trash.h"
#include "ndp/pipestore/upload_log.h"
#include "tests/sim/bugs.h"

namespace ndtrain::sim {
using namespace ndp;

class UploadLabels {
 public:
  // Of a store's life. Keeps references.
  UploadLabels(UploadLog& log, StoreTrash& trash, Clock& clock, Bug bug)
      : log_(log), trash_(trash), clock_(clock), bug_(bug) {}

  // These from now on; photos that they have yet to label are due.
  void put_in_force(const VersionsInForce& versions);

  // False: it is not taken, as it was deleted, or the disk is full.
  bool take(const Digest& photo);
  // What a person says that a photo shows in a task, and when; nullopt: it is not taken.
  std::optional<int64_t> say(const Digest& photo, const std::string& task,
                             const std::string& class_name);
  void label_waiting();               // a few of those that are due
  void look_again() { due_ = true; }  // photos are back from the trash
  bool due() const { return due_; }

 private:
  wire::Upload line_of(const Digest& photo) const;
  wire::Upload labelled(const Digest& photo, const std::string& task,
                        const VersionInForce& version) const;
  bool waits(const Digest& photo, const std::string& task) const;

  UploadLog& log_;
  StoreTrash& trash_;
  Clock& clock_;
  const Bug bug_;
  VersionsInForce versions_;  // that label
  bool due_ = true;
};

}  // namespace ndtrain::sim
