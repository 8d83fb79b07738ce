// What the files of one job that is done have of photos, kept in mind between deletions: for a
// photo that none of them names, a few hundred bytes of the list of photos are read and no more,
// however long that is. A job that is done changes by deletions alone, which go through here; a
// list that has another size, time or inode than when it was read whole, and found as it was
// written, is read anew.
//
// One thread at a time.
#pragma once

#include <optional>
#include <set>

#include "tuner/jobs/job_files.h"
#include "tuner/jobs/listed_digests.h"

namespace ndtrain::tuner {
using namespace ndp;

class DoneTraces {
 public:
  // Photos leave the job's files. First its record says that it is done: a disk that was full when
  // the job ended has it as running, and a Tuner that went on with it would find another list of
  // photos than the one by which its runs were closed.
  Status forget(JobFiles& files, Fs& fs, const JobRecord& job, const std::set<Digest>& photos);
  bool saved() const { return saved_; }  // then the record is not asked for any more

 private:
  Result<bool> names_any(const JobFiles& files, Fs& fs, const std::set<Digest>& photos);
  Result<bool> lists_any(const JobFiles& files, Fs& fs, const std::set<Digest>& photos);

  bool saved_ = false, asked_before_ = true;
  std::optional<std::set<Digest>> quarantined_;  // none: not known
  bool has_no_list_ = false;
  std::optional<ListedDigests> list_;
};

}  // namespace ndtrain::tuner
