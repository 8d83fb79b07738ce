// All jobs of a state directory, and what was said of each. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "tuner/jobs/job_files.h"

namespace ndtrain::tuner {
using namespace ndp;

inline constexpr size_t kKeptJobs = 500;  // of those that are over, where nobody says how many

class JobRecords {
 public:
  // Of this directory, which is made where it is not. A job that cannot be read has failed, and its
  // number is not given out again. Throws Error when the directory cannot be read.
  JobRecords(Fs& fs, std::string directory);

  const std::string& directory() const { return directory_; }
  const std::map<uint64_t, JobRecord>& all() const { return jobs_; }
  const JobRecord& job(uint64_t id) const;  // throws Error when there is none
  JobRecord& at(uint64_t id) { return jobs_.at(id); }
  // In its directory, or in one below that.
  JobFiles files(uint64_t id, const std::string& below = "") const;

  Status save(const JobRecord& record);      // the file alone
  uint64_t saves() const { return saves_; }  // so far: where there are more, a state has changed
  void remove(uint64_t id);  // it is not asked for any more; its files are as they were
  void put(const JobRecord& record) { jobs_[record.id] = record; }

  // A line of the job's log, in its file where that can be written.
  void note(uint64_t id, const std::string& text);
  // All lines, of earlier lives of the process too; none of a job that there is not. Of one that is
  // over they are read from its file.
  std::vector<std::string> log(uint64_t id) const;

  // Rows of jobs that ended just before the Tuner was killed. Once, at the start.
  void remove_done_rows();

 private:
  bool is_open(uint64_t id) const;
  std::vector<std::string> kept_lines(uint64_t id) const;

  Fs& fs_;
  const std::string directory_;
  std::map<uint64_t, JobRecord> jobs_;
  uint64_t saves_ = 0;
  std::map<uint64_t, std::vector<std::string>> logs_;  // of open jobs that said something
};

}  // namespace ndtrain::tuner
