// The cache of features and crops, as a job has it. One process writes it at a time, and others
// wait for that one only when they have something to write themselves; any number read it. One
// thread.
#pragma once

#include <memory>
#include <string>

#include "framework/core/clock.h"
#include "ndp/jobs/progress.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

class FeatureCache {
 public:
  // In the directory `cache`. `who`: see lock_as().
  FeatureCache(Fs& fs, const Clock& clock, const std::string& cache, std::string who);

  // For writing when nobody else writes, else as it is now, for reading. Throws Error.
  void open();
  // For writing, when it is this one's turn: what others have written until then is there. False:
  // interrupted while it waited. Throws Error.
  bool open_to_write(Progress& progress);
  bool writes() const { return writes_; }
  SegmentStore& store() { return *store_; }  // while it is open

  // What was written is durable, and others may write; what is in `group` stays readable here.
  void stop_writing(const Digest& group);
  void close();  // durable too; harmless when it is closed

 private:
  Status try_to_write();

  Fs& fs_;
  const Clock& clock_;
  const std::string directory_, who_;
  std::unique_ptr<SegmentStore> store_;
  bool writes_ = false;
};

}  // namespace ndtrain::ndp
