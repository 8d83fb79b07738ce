#include "tuner/service/job_history.h"

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "tuner/service/service_lanes.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// That a job has published; 0: none.
uint64_t version_of(const JobRecord& job) {
  if (job.state != JobState::kDone || job.spec.kind != JobKind::kFinetune) return 0;
  const Json result = parse_json(job.result);
  const auto version = result.find("version");
  const bool has = version != result.end() && version->is_number_unsigned();
  return has ? version->get<uint64_t>() : 0;
}

}  // namespace

void JobHistory::pump() {
  if (working_ || stopping_ || (!look_ && seen_ == ports_.records.saves())) return;
  const std::vector<uint64_t> old = too_many();
  const std::vector<uint64_t> bare = look_ ? without_version() : std::vector<uint64_t>();
  std::vector<JobFiles> directories, runs;
  for (const uint64_t id : old) {
    log::info("job {} is removed: {} newer ones are kept", id, ports_.kept);
    directories.push_back(ports_.records.files(id));
    ports_.records.remove(id);
  }
  for (const uint64_t id : bare) runs.push_back(ports_.records.files(id));
  stripped_.insert(bare.begin(), bare.end());
  look_ = old.size() == kAtOnce || bare.size() == kAtOnce;
  seen_ = ports_.records.saves();
  if (directories.empty() && runs.empty()) return;
  working_ = true;
  ports_.lanes.start(kUploadLane, [this, old, directories, runs]() mutable -> Continuation {
    for (JobFiles& job : directories) {
      if (const Status s = job.remove(); !s.ok()) log::warn("{}", s.message());
    }
    for (JobFiles& job : runs) {
      if (const Status s = job.remove_models(); !s.ok()) log::warn("{}", s.message());
    }
    return [this, old] {
      working_ = false;
      for (const uint64_t id : old) {
        stripped_.erase(id);
        ports_.gone(id);
      }
    };
  });
}

std::vector<uint64_t> JobHistory::too_many() const {
  const auto is_over = [](const auto& job) { return !job.second.open(); };
  auto newer = static_cast<size_t>(std::ranges::count_if(ports_.records.all(), is_over));
  std::vector<uint64_t> old;
  for (const auto& [id, job] : ports_.records.all()) {
    if (newer <= ports_.kept || old.size() == kAtOnce) break;
    if (job.open()) continue;
    --newer;
    const bool stays =
        !job.readable || !job.notes.empty() || ports_.versions.of_job(id).has_value();
    if (!stays) old.push_back(id);
  }
  return old;
}

std::vector<uint64_t> JobHistory::without_version() const {
  std::vector<uint64_t> bare;
  for (const auto& [id, job] : ports_.records.all()) {
    if (bare.size() == kAtOnce) break;
    if (stripped_.contains(id)) continue;
    const uint64_t version = version_of(job);
    if (version > 0 && !ports_.versions.find(version)) bare.push_back(id);
  }
  return bare;
}

}  // namespace ndtrain::tuner
