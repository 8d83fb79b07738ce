#include "tuner/service/photo_deletions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "framework/core/log.h"
#include "ndp/wire/digests.h"
#include "tuner/service/service_lanes.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr PhotoDeletions::Time kForgetRetry = std::chrono::seconds(2);
constexpr size_t kAtOnce = 4096;            // photos in one message
constexpr uint32_t kSpeaksOfDeletions = 2;  // protocol

}  // namespace

PhotoDeletions::PhotoDeletions(Ports ports)
    : ports_(std::move(ports)), log_(ports_.fs, ports_.directory) {
  for (auto& [name, store] : ports_.stores.all()) {
    store.deletions = std::min(store.deletions, log_.size());
  }
}

PhotoDeletions::Deletion PhotoDeletions::remove(std::span<const Digest> photos) {
  add(photos).or_throw();
  Deletion d;
  for (const auto& [name, store] : ports_.stores.all()) {
    (store.here ? d.told : d.away).push_back(name);
  }
  return d;
}

Status PhotoDeletions::add(std::span<const Digest> photos) {
  const uint64_t before = log_.size();
  if (Status s = log_.add(photos); !s.ok()) return s;
  if (log_.size() == before) return {};
  log::info("{} photos are deleted", log_.size() - before);
  for (const std::string& store : ports_.stores.here()) tell(store);
  pump();
  return {};
}

// What it said of itself when its session began.
void PhotoDeletions::greet(const wire::Hello& hello) {
  StoreRecord& store = ports_.stores.record(hello.store());
  const uint64_t n = hello.deletions();
  const bool ours = n <= log_.size() && log_.mark(n) == hello.deletions_mark();
  store.deletions = ours ? n : 0;
  Told& told = told_[hello.store()];
  told.understands =
      std::ranges::find(hello.protocols(), kSpeaksOfDeletions) != hello.protocols().end();
  told.count = store.deletions;
  tell(hello.store());
}

void PhotoDeletions::tell(const std::string& store) {
  Told& told = told_[store];
  if (!told.understands) return;
  while (told.count < log_.size()) {
    wire::ToStore message;
    wire::Deletions& d = *message.mutable_deletions();
    const std::span<const Digest> rest = log_.from(told.count);
    for (const Digest& photo : rest.first(std::min(kAtOnce, rest.size()))) {
      d.mutable_photos()->append(bytes_of(photo));
      ++told.count;
    }
    d.set_count(told.count);
    d.set_mark(log_.mark(told.count));
    ports_.stores.send(store, std::move(message));
  }
}

void PhotoDeletions::let_go(const std::string& store, uint64_t count) {
  ports_.stores.record(store).deletions = std::min(count, log_.size());
}

// Labels at once. What a job in progress keeps, its spool and manifest, goes when it is over; what
// it says of a deleted photo meanwhile, then too.
void PhotoDeletions::pump() {
  const uint64_t all = log_.size(), whole = log_.forgotten();
  const bool idle = ports_.idle() && !(ports_.holders && ports_.holders->writing());
  if (forgetting_ || stopping_ || now() < forget_at_) return;
  if (whole == all || (!idle && labels_forgotten_ >= all)) return;
  forgetting_ = true;
  std::vector<Forgetting> jobs;
  if (idle) jobs = all_jobs();
  const uint64_t from = idle ? whole : std::max(whole, labels_forgotten_);
  const std::span<const Digest> photos = log_.from(from);
  std::set<Digest> gone(photos.begin(), photos.end());
  Result<std::vector<PhotoHolders::Rewrite>> held = std::vector<PhotoHolders::Rewrite>();
  if (idle && ports_.holders) held = ports_.holders->begin_forgetting(gone);
  ports_.lanes.start(
      kUploadLane,
      [this, idle, all, jobs = std::move(jobs), held = std::move(held),
       gone = std::move(gone)]() mutable -> Continuation {
        Status s = ports_.uploads ? ports_.uploads->forget(std::vector(gone.begin(), gone.end()))
                                  : Status();
        if (s.ok() && idle && ports_.forget_features) s = ports_.forget_features(gone);
        for (Forgetting& job : jobs) {
          if (!s.ok()) break;
          s = job.traces ? job.traces->forget(job.files, ports_.fs, job.record, gone)
                         : job.files.forget(gone, false);
        }
        if (s.ok()) s = held.status();
        for (size_t i = 0; held.ok() && s.ok() && i < held->size(); ++i) {
          s = PhotoHolders::forget_in(ports_.fs, gone, (*held)[i]);
        }
        return [this, idle, all, s, held = std::move(held)]() mutable {
          if (ports_.holders && held.ok()) ports_.holders->end_forgetting(std::move(*held));
          forgotten(all, idle, s);
        };
      });
}

// What is known of jobs that are done stays where it is while the task is out.
std::vector<PhotoDeletions::Forgetting> PhotoDeletions::all_jobs() {
  std::vector<Forgetting> jobs;
  for (const auto& [id, record] : ports_.records.all()) {
    Forgetting& job = jobs.emplace_back(Forgetting{ports_.records.files(id)});
    if (record.state != JobState::kDone) continue;
    job.traces = &done_[id];
    if (!job.traces->saved()) job.record = record;
  }
  return jobs;
}

PhotoDeletions::Time PhotoDeletions::next() const {
  const bool again = forget_at_ > Time(0) && !forgetting_ && !stopping_;
  return again ? forget_at_ : Time::max();
}

void PhotoDeletions::forgotten(uint64_t count, bool whole, Status status) {
  forgetting_ = false;
  if (status.ok()) {
    labels_forgotten_ = count;
    if (whole) status = log_.forget_first(count);
  }
  if (!status.ok() && forget_at_ == Time(0)) {
    log::warn("deleted photos leave traces for now: {}", status.message());
  }
  forget_at_ = status.ok() ? Time(0) : now() + kForgetRetry;
}

}  // namespace ndtrain::tuner
