// Photos that people deleted: every store hears of each, and the Tuner lets go of what it has.
#include <algorithm>

#include "framework/core/log.h"
#include "ndp/wire/digests.h"
#include "tuner/service/service.h"

namespace ndtrain {
namespace {

constexpr TunerService::Time kRetry = std::chrono::seconds(2);
constexpr size_t kAtOnce = 4096;            // photos in one message
constexpr uint32_t kSpeaksOfDeletions = 2;  // protocol

}  // namespace

TunerService::Deletion TunerService::delete_photos(std::span<const Digest> photos) {
  bury(photos).or_throw();
  Deletion d;
  for (const auto& [name, store] : stores_) (store.here ? d.told : d.away).push_back(name);
  return d;
}

Status TunerService::bury(std::span<const Digest> photos) {
  const uint64_t before = deletions_.size();
  if (Status s = deletions_.add(photos); !s.ok()) return s;
  if (deletions_.size() == before) return {};
  log::info("{} photos are deleted", deletions_.size() - before);
  for (const std::string& store : sessions_.stores()) tell_deletions(store);
  pump_deletions();
  return {};
}

// What it said of itself when its session began.
void TunerService::greet_with_deletions(const wire::Hello& hello) {
  StoreRecord& store = stores_[hello.store()];
  const uint64_t n = hello.deletions();
  const bool ours = n <= deletions_.size() && deletions_.mark(n) == hello.deletions_mark();
  store.deletions = ours ? n : 0;
  Told& told = told_[hello.store()];
  told.understands =
      std::ranges::find(hello.protocols(), kSpeaksOfDeletions) != hello.protocols().end();
  told.count = store.deletions;
  tell_deletions(hello.store());
}

void TunerService::tell_deletions(const std::string& store) {
  Told& told = told_[store];
  if (!told.understands) return;
  while (told.count < deletions_.size()) {
    wire::ToStore message;
    wire::Deletions& d = *message.mutable_deletions();
    const std::span<const Digest> rest = deletions_.from(told.count);
    for (const Digest& photo : rest.first(std::min(kAtOnce, rest.size()))) {
      d.mutable_photos()->append(bytes_of(photo));
      ++told.count;
    }
    d.set_count(told.count);
    d.set_mark(deletions_.mark(told.count));
    send(store, std::move(message));
  }
}

// Labels at once. What a job in progress keeps, its spool and manifest, goes when it is over; what
// it says of a deleted photo meanwhile, then too.
void TunerService::pump_deletions() {
  const uint64_t all = deletions_.size(), whole = deletions_.forgotten();
  const bool idle = !active_ && tasks_ == 0;
  if (forgetting_ || stopping_ || now() < forget_at_) return;
  if (whole == all || (!idle && labels_forgotten_ >= all)) return;
  forgetting_ = true;
  std::vector<std::pair<JobFiles, bool>> jobs;  // done
  for (const auto& [id, record] : jobs_) {
    if (idle) jobs.emplace_back(files(id), record.state == JobState::kDone);
  }
  const uint64_t from = idle ? whole : std::max(whole, labels_forgotten_);
  const std::span<const Digest> photos = deletions_.from(from);
  setting_.lanes.start(kUploadLane,
                       [this, idle, all, jobs = std::move(jobs),
                        gone = std::set(photos.begin(), photos.end())]() mutable -> Continuation {
                         Status s =
                             setting_.uploads
                                 ? setting_.uploads->forget(std::vector(gone.begin(), gone.end()))
                                 : Status();
                         for (auto& [files, done] : jobs) {
                           if (s.ok()) s = files.forget(gone, done);
                         }
                         return [this, idle, all, s] { forgotten(all, idle, s); };
                       });
}

void TunerService::forgotten(uint64_t count, bool whole, Status status) {
  forgetting_ = false;
  if (status.ok()) {
    labels_forgotten_ = count;
    if (whole) status = deletions_.forget_first(count);
  }
  if (!status.ok() && forget_at_ == Time(0)) {
    log::warn("deleted photos leave traces for now: {}", status.message());
  }
  forget_at_ = status.ok() ? Time(0) : now() + kRetry;
}

}  // namespace ndtrain
