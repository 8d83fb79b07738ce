#include "ndp/pipestore/row_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "ndp/jobs/row_task.h"
#include "ndp/pipestore/inventory_messages.h"
#include "ndp/pipestore/store_lanes.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::ndp {
namespace {

// What `f` gives on a lane; what it throws as a Status.
template <typename F>
auto tried(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    return Status(Code::kIo, e.what());
  }
}

std::vector<Digest> models_of(const wire::Job& job) {
  std::vector<Digest> models;
  if (const auto d = digest_of(job.extractor())) models.push_back(*d);
  if (const auto d = digest_of(job.head())) models.push_back(*d);
  return models;
}

}  // namespace

void RowJobs::answer(const Job& job, wire::FromStore message) {
  message.set_answers(job.ask.serial());
  ports_.tuner.send(std::move(message));
}

void RowJobs::refuse(uint64_t id, const std::string& reason) {
  log::warn("job {} cannot be done here: {}", id, reason);
  wire::FromStore m;
  m.mutable_refused()->set_job(id);
  m.mutable_refused()->set_reason(wire::as_text(reason));
  const auto job = jobs_.extract(id);
  answer(job.mapped(), std::move(m));
}

void RowJobs::begin(const wire::Job& job) {
  if (listing_ >= kMostLists) {
    return ports_.tuner.refuse(fmt::format(
        "job {} is asked for while {} lists of photos are made; {} are the most at once", job.job(),
        listing_, kMostLists));
  }
  log::info("job {} begins", job.job());
  jobs_[job.job()] = Job{.ask = job, .serial = ++serials_};
  if (jobs_.size() > kMost) {
    return refuse(job.job(), fmt::format("{} jobs at once are the most", kMost));
  }
  list(job.job());
  ports_.go_on();
}

void RowJobs::wanted(const wire::Wanted& message) {
  const auto job = jobs_.find(message.job());
  if (job == jobs_.end()) return;
  if (!job->second.work) {
    return ports_.tuner.refuse(
        fmt::format("photos of job {} are wanted before it was told of any", message.job()));
  }
  if (const Status s = job->second.work->wanted(message); !s.ok()) {
    return ports_.tuner.refuse(fmt::format("job {}: {}", message.job(), s.message()));
  }
  make_more(job->first);
}

void RowJobs::acknowledged(const wire::Ack& message) {
  const auto job = jobs_.find(message.job());
  if (job == jobs_.end() || !job->second.work) return;
  job->second.work->acknowledged(message);
  make_more(job->first);
}

void RowJobs::end(const wire::JobEnd& end) {
  const auto job = jobs_.extract(end.job());
  if (!job) return;
  log::info("job {} has ended{}{}", end.job(), end.reason().empty() ? "" : ": ", end.reason());
  if (job.mapped().rows) job.mapped().rows->give_up();
}

void RowJobs::advance() {
  std::vector<uint64_t> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  for (const uint64_t id : ids) {  // any of which may be refused meanwhile
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || job->second.opening || job->second.work) continue;
    if (has_models(job->second) && job->second.inventory) open(id);
  }
}

bool RowJobs::has_models(const Job& job) {
  const std::vector<Digest> models = models_of(job.ask);
  if (retry_at_ == Time::max()) return ports_.models.fetch(models);
  return std::ranges::all_of(models, [&](const Digest& m) { return ports_.blobs.has(m); });
}

void RowJobs::model_failed(const Status& why) {
  std::vector<uint64_t> waiting;
  for (const auto& [id, job] : jobs_) {
    if (!job.work && !job.opening) waiting.push_back(id);
  }
  if (why.code() == Code::kNoSpace) {
    retry_at_ = ports_.clock.monotonic() + kRetry;
    for (const uint64_t id : waiting) {
      log::warn("job {} waits for room for its model: {}", id, why.message());
    }
    return;
  }
  for (const uint64_t id : waiting) refuse(id, "its model cannot be kept: " + why.message());
}

void RowJobs::wait_for_photos(uint64_t id, const Status& why) {
  photos_at_ = std::min(photos_at_, ports_.clock.monotonic() + kAway);
  if (!std::exchange(away_, true)) log::warn("job {} waits for photos: {}", id, why.message());
}

void RowJobs::photos_are_there() {
  if (std::exchange(away_, false)) log::info("the photos can be read again");
}

void RowJobs::try_photos_again() {
  photos_at_ = Time::max();
  std::vector<uint64_t> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  for (const uint64_t id : ids) {  // any of which may be refused meanwhile
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) continue;
    if (std::exchange(job->second.unlisted, false)) list(id);
    if (std::exchange(job->second.unhashed, false)) hash_more(id);
    for (RowDelivery::Batch& batch : std::exchange(job->second.waiting, {})) {
      if (jobs_.contains(id)) make(id, std::move(batch));
    }
  }
}

void RowJobs::tick() {
  if (ports_.clock.monotonic() >= photos_at_) try_photos_again();
  if (ports_.clock.monotonic() < retry_at_) return;
  retry_at_ = Time::max();
  ports_.go_on();
}

std::vector<Digest> RowJobs::models() const {
  std::vector<Digest> all;
  for (const auto& [id, job] : jobs_) {
    for (const Digest& model : models_of(job.ask)) all.push_back(model);
  }
  return all;
}

void RowJobs::list(uint64_t id) {
  ++listing_;
  ports_.lanes.start(kStoreLane, [this, id, serial = jobs_.at(id).serial]() -> Continuation {
    const auto begun = ports_.clock.monotonic();
    Result<StoreInventory> result = tried([&] { return ports_.producer.scan(); });
    if (result.ok()) {
      result->seconds = std::chrono::duration<double>(ports_.clock.monotonic() - begun).count();
    }
    return [this, id, serial, result = std::move(result)] {
      --listing_;
      if (is_current(id, serial)) listed(id, result);
    };
  });
}

void RowJobs::listed(uint64_t id, Result<StoreInventory> result) {
  if (result.status().code() == Code::kUnavailable) {
    jobs_.at(id).unlisted = true;
    return wait_for_photos(id, result.status());
  }
  if (!result.ok()) return refuse(id, result.status().message());
  photos_are_there();
  jobs_.at(id).inventory = std::make_shared<StoreInventory>(std::move(*result));
  ports_.go_on();
}

void RowJobs::open(uint64_t id) {
  Job& job = jobs_.at(id);
  job.opening = true;
  const std::vector<Digest> models = models_of(job.ask);
  std::string paths[2];
  for (size_t i = 0; i < models.size(); ++i) paths[i] = ports_.blobs.path(models[i]);
  auto task = [this, id, serial = job.serial, ask = job.ask, inventory = job.inventory, models,
               extractor = paths[0], head = paths[1]]() -> Continuation {
    std::optional<ModelFetch::Damage> damage = ports_.models.damage_in(models);
    Result<Opened> result =
        damage ? Status(Code::kCorrupt, damage->what)
               : tried([&]() -> Result<Opened> { return open(ask, inventory, extractor, head); });
    return [this, id, serial, result = std::move(result), damage] {
      if (is_current(id, serial)) opened(id, result, damage);
    };
  };
  ports_.lanes.start(kStoreLane, std::move(task));
}

Result<RowJobs::Opened> RowJobs::open(const wire::Job& ask,
                                      std::shared_ptr<const StoreInventory> inventory,
                                      const std::string& extractor, const std::string& head) {
  Result<std::unique_ptr<JobRows>> rows =
      ports_.producer.open(ask, std::move(inventory), extractor, head);
  if (!rows.ok()) return rows.status();
  const RowDelivery::RowSize row = (*rows)->row();
  if (row.bytes == 0) return Status(Code::kCorrupt, "a row of it would have no bytes");
  if (row.bytes > static_cast<size_t>(limits::kPhotoFile) / row.views) {
    return Status(
        Code::kTooLarge,
        fmt::format("a row of it would have {} bytes, {} times over; the limit is {} in all",
                    row.bytes, row.views, limits::kPhotoFile));
  }
  Opened opened{std::move(*rows), {}};
  if (ask.with_gain()) opened.about.set_bf16_gain(ports_.producer.bf16_gain());
  if (ask.sample().empty()) return opened;
  const std::vector<std::string> photos(ask.sample().begin(), ask.sample().end());
  Result<std::string> sample = opened.rows->sample(photos);
  if (!sample.ok()) return sample.status();
  opened.about.set_sample_checksum(xxh3(sample->data(), sample->size()));
  opened.about.set_sample(std::move(*sample));
  return opened;
}

void RowJobs::opened(uint64_t id, const Result<Opened>& result,
                     const std::optional<ModelFetch::Damage>& damage) {
  Job& job = jobs_.at(id);
  job.opening = result.ok();
  if (damage) return ports_.models.fetch_again(*damage);
  if (!result.ok()) return refuse(id, result.status().message());
  ports_.models.found_whole();
  job.rows = result->rows;
  job.about = result->about;
  hash_more(id);
}

// Until all are hashed that the job asks about; then it is told what there is.
void RowJobs::hash_more(uint64_t id) {
  const Job& job = jobs_.at(id);
  const size_t from = job.hashes.size(), photos = job.inventory->photos.size();
  if (!job.ask.with_hashes() || from == photos) return tell(id);
  std::vector<size_t> places(std::min(kHashes, photos - from));
  std::iota(places.begin(), places.end(), from);
  auto task = [this, id, serial = job.serial, rows = job.rows,
               places = std::move(places)]() -> Continuation {
    auto result = tried([&] { return rows->hashes(places); });
    return [this, id, serial, result = std::move(result)] {
      if (is_current(id, serial)) hashed(id, result);
    };
  };
  ports_.lanes.start(kStoreLane, std::move(task));
}

void RowJobs::hashed(uint64_t id, const Result<std::vector<std::optional<uint64_t>>>& result) {
  Job& job = jobs_.at(id);
  if (result.status().code() == Code::kUnavailable) {
    job.unhashed = true;
    return wait_for_photos(id, result.status());
  }
  if (!result.ok()) return refuse(id, result.status().message());
  photos_are_there();
  job.hashes.insert(job.hashes.end(), result->begin(), result->end());
  hash_more(id);
}

void RowJobs::tell(uint64_t id) {
  Job& job = jobs_.at(id);
  job.opening = false;
  job.work = std::make_unique<RowDelivery>(id, job.inventory->photos.size(), job.rows->row(),
                                           ports_.tuner.window());
  for (wire::FromStore& m :
       inventory_messages(id, *job.inventory, std::exchange(job.about, {}),
                          {.paths = job.ask.with_paths(), .hashes = job.hashes})) {
    answer(job, std::move(m));
  }
  job.hashes = {};
}

void RowJobs::make_more(uint64_t id) {
  Job& job = jobs_.at(id);
  while (job.tasks < kTasks) {
    std::optional<RowDelivery::Batch> batch =
        job.work->next(row_task(job.work->waiting(), job.photo_s));
    if (!batch) return;
    ++job.tasks;
    make(id, std::move(*batch));
  }
}

void RowJobs::make(uint64_t id, RowDelivery::Batch batch) {
  const Job& job = jobs_.at(id);
  std::vector<size_t> places;
  for (const RowDelivery::Photo& p : batch.photos) places.push_back(p.place);
  const bool views = job.ask.has_views() && batch.run > 0;
  auto task = [this, id, serial = job.serial, rows = job.rows, batch = std::move(batch),
               places = std::move(places), views]() -> Continuation {
    Result<JobRows::Made> result =
        tried([&] { return views ? rows->make_views(places) : rows->make(places); });
    return [this, id, serial, batch, result = std::move(result)] {
      if (is_current(id, serial)) made(id, batch, result);
    };
  };
  ports_.lanes.start(kStoreLane, std::move(task));
}

void RowJobs::made(uint64_t id, const RowDelivery::Batch& batch,
                   const Result<JobRows::Made>& made) {
  if (made.status().code() == Code::kUnavailable) {
    jobs_.at(id).waiting.push_back(batch);
    return wait_for_photos(id, made.status());
  }
  if (!made.ok()) return refuse(id, made.status().message());
  photos_are_there();
  const bool whole = std::ranges::all_of(
      made->rows, [](const std::string& row) { return row.size() <= kWholeRow; });
  if (!whole && ports_.tuner.protocol() < kSpeaksOfPieces) {
    return refuse(id,
                  "a row is larger than " + std::to_string(kWholeRow) +
                      " bytes, the most that this Tuner's version of ndtrain takes: upgrade it");
  }
  Job& job = jobs_.at(id);
  --job.tasks;
  job.photo_s = made->busy / static_cast<double>(batch.photos.size());
  rows_made_ += made->rows.size();
  photo_bytes_ += made->photo_bytes;
  std::vector<RowDelivery::BadRow> bad;
  for (const JobRows::Bad& b : made->bad) {
    const auto photo = std::ranges::find(batch.photos, b.place, &RowDelivery::Photo::place);
    bad.push_back({photo->number, job.inventory->photos.at(b.place).path, b.reason});
  }
  add_cost(job, batch.run, *made);
  for (const auto& [name, seconds] : made->stages) stages_[name] += seconds;
  for (wire::FromStore& m : job.work->done(batch, made->rows, bad, made->busy)) {
    if (m.has_run_done()) report_cost(job, batch.run, *m.mutable_run_done());
    row_bytes_ += m.rows().rows().size();
    answer(job, std::move(m));
  }
  make_more(id);
}

void RowJobs::add_cost(Job& job, uint32_t run, const JobRows::Made& made) {
  for (const auto& [name, seconds] : made.stages) job.stages[run][name] += seconds;
  for (const auto& [what, rows] : made.made_from) job.made_from[run][what] += rows;
  if (made.joules) job.joules[run] += *made.joules;
}

void RowJobs::report_cost(const Job& job, uint32_t run, wire::RunDone& done) {
  if (const auto j = job.joules.find(run); j != job.joules.end()) done.set_joules(j->second);
  if (const auto stages = job.stages.find(run); stages != job.stages.end()) {
    for (const auto& [name, seconds] : stages->second) {
      wire::Stage& s = *done.add_stages();
      s.set_name(name);
      s.set_seconds(seconds);
    }
  }
  if (const auto from = job.made_from.find(run); from != job.made_from.end()) {
    done.mutable_made_from()->insert(from->second.begin(), from->second.end());
  }
}

}  // namespace ndtrain::ndp
