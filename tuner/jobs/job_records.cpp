#include "tuner/jobs/job_records.h"

#include <charconv>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/text.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

JobRecord unreadable(uint64_t job, const Status& why) {
  log::error("job {} cannot be read, and is left as it is: {}", job, why.message());
  return {.id = job,
          .state = JobState::kFailed,
          .message = "it cannot be read: " + why.message(),
          .readable = false};
}

}  // namespace

JobRecords::JobRecords(Fs& fs, std::string directory) : fs_(fs), directory_(std::move(directory)) {
  fs_.make_directories(directory_).or_throw();
  for (const std::string& name : fs_.list(directory_).or_throw()) {
    uint64_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    Result<JobRecord> record = files(id).load();
    if (record.status().code() == Code::kNotFound) {  // killed before it was accepted
      static_cast<void>(
          fs_.remove(files(id).directory()).ok());  // or removed, but for an empty one
      continue;
    }
    if (record.ok() && record->id != id) {
      record = Status(Code::kCorrupt,
                      files(id).directory() + ": is of job " + std::to_string(record->id));
    }
    jobs_[id] = record.ok() ? *record : unreadable(id, record.status());
  }
}

const JobRecord& JobRecords::job(uint64_t id) const {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) throw Error("there is no job ", id);
  return it->second;
}

Status JobRecords::save(const JobRecord& record) {
  ++saves_;
  return files(record.id).save(record);
}

void JobRecords::remove(uint64_t id) {
  jobs_.erase(id);
  logs_.erase(id);
}

JobFiles JobRecords::files(uint64_t id, const std::string& below) const {
  const std::string directory = join(directory_, std::to_string(id));
  return {fs_, below.empty() ? directory : join(directory, below)};
}

bool JobRecords::is_open(uint64_t id) const {
  const auto job = jobs_.find(id);
  return job != jobs_.end() && job->second.open();
}

void JobRecords::note(uint64_t id, const std::string& text) {
  const std::string line = printable(text);
  if (is_open(id)) {
    if (!logs_.contains(id)) logs_.emplace(id, kept_lines(id));
    logs_.at(id).push_back(line);
  } else {
    logs_.erase(id);
  }
  if (const Status s = files(id).log(line); !s.ok()) {
    log::warn("job {}: {}; it was to say: {}", id, s.message(), line);
  }
}

std::vector<std::string> JobRecords::log(uint64_t id) const {
  const auto lines = logs_.find(id);
  return lines != logs_.end() && is_open(id) ? lines->second : kept_lines(id);
}

std::vector<std::string> JobRecords::kept_lines(uint64_t id) const {
  Result<std::vector<std::string>> kept = files(id).log();
  if (kept.ok()) return std::move(*kept);
  log::warn("job {}: {}", id, kept.status().message());
  return {};
}

void JobRecords::remove_done_rows() {
  for (const auto& [id, record] : jobs_) {
    if (record.state == JobState::kDone) files(id).remove_rows();
  }
}

}  // namespace ndtrain::tuner
