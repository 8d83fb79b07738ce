// The rows that a PipeStore makes for its jobs.
#include <algorithm>

#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "ndp/pipestore/service.h"
#include "ndp/wire/protocol.h"

namespace ndtrain {
namespace {

constexpr size_t kInventoryBytes = size_t{1} << 20;  // of one message, about

// What `f` gives on a lane; what it throws as a Status.
template <typename F>
auto tried(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    return Status(Code::kIo, e.what());
  }
}

}  // namespace

void PipeStoreService::list(uint64_t id) {
  opened_ = id;  // from its place on the lane on
  listed_ = jobs_.at(id).serial;
  setting_.lanes.start(0, [this, id, serial = listed_]() -> Continuation {
    const Time begun = now();
    Result<StoreInventory> result = tried([&] { return setting_.maker.scan(); });
    if (result.ok()) result->seconds = std::chrono::duration<double>(now() - begun).count();
    return [this, id, serial, result = std::move(result)] {
      if (is_current(id, serial)) listed(id, result);
    };
  });
}

void PipeStoreService::listed(uint64_t id, Result<StoreInventory> result) {
  if (!result.ok()) return refuse(id, result.status().message());
  jobs_.at(id).inventory = std::make_shared<StoreInventory>(std::move(*result));
  advance();
}

void PipeStoreService::open(uint64_t id) {
  Job& job = jobs_.at(id);
  job.opening = true;
  opened_ = id;
  const std::vector<Digest> models = models_of(job.ask);
  std::string paths[2];
  for (size_t i = 0; i < models.size(); ++i) paths[i] = shelf_.path(models[i]);
  setting_.lanes.start(0,
                       [this, id, serial = job.serial, ask = job.ask, models, extractor = paths[0],
                        head = paths[1]]() -> Continuation {
                         std::optional<DamagedModel> damage = damage_in(models);
                         Result<Opened> result = damage ? Status(Code::kCorrupt, damage->what)
                                                        : tried([&]() -> Result<Opened> {
                                                            return open(ask, extractor, head);
                                                          });
                         return [this, id, serial, result = std::move(result), damage] {
                           if (is_current(id, serial)) opened(id, result, damage);
                         };
                       });
}

Result<PipeStoreService::Opened> PipeStoreService::open(const wire::Job& ask,
                                                        const std::string& extractor,
                                                        const std::string& head) {
  const Result<RowWork::RowSize> row = setting_.maker.open(ask, extractor, head);
  if (!row.ok()) return row.status();
  Opened opened{*row, {}};
  if (ask.with_gain()) opened.about.set_bf16_gain(setting_.maker.bf16_gain());
  if (ask.sample().empty()) return opened;
  const std::vector<std::string> photos(ask.sample().begin(), ask.sample().end());
  Result<std::string> sample = setting_.maker.sample(photos);
  if (!sample.ok()) return sample.status();
  opened.about.set_sample_checksum(xxh3(sample->data(), sample->size()));
  opened.about.set_sample(std::move(*sample));
  return opened;
}

void PipeStoreService::opened(uint64_t id, const Result<Opened>& result,
                              const std::optional<DamagedModel>& damage) {
  Job& job = jobs_.at(id);
  job.opening = false;
  if (damage) return fetch_again(*damage);
  if (!result.ok()) return refuse(id, result.status().message());
  damaged_ = 0;
  job.work =
      std::make_unique<RowWork>(id, job.inventory->photos.size(), result->row, session_.window());
  send_inventory(job, result->about);
}

void PipeStoreService::send_inventory(const Job& job, wire::Inventory about) {
  std::map<std::string, uint32_t> names;
  const std::vector<StorePhoto>& photos = job.inventory->photos;
  size_t at = 0;
  if (about.ByteSizeLong() > 0) {
    wire::FromStore m;
    about.set_job(job.ask.job());
    *m.mutable_inventory() = std::move(about);
    answer(job, std::move(m));
  }
  do {
    wire::FromStore m;
    wire::Inventory& i = *m.mutable_inventory();
    i.set_job(job.ask.job());
    for (size_t bytes = 0; at < photos.size() && bytes < kInventoryBytes; ++at) {
      const StorePhoto& p = photos[at];
      i.mutable_digests()->append(p.digest.begin(), p.digest.end());
      i.mutable_sources()->push_back(static_cast<char>(p.source));
      uint32_t label = 0;
      if (!p.label.empty()) {
        const auto [name, fresh] = names.emplace(p.label, static_cast<uint32_t>(names.size()) + 1);
        if (fresh) i.add_names(p.label);
        label = name->second;
      }
      i.add_labels(label);
      if (job.ask.with_paths()) i.add_paths(p.path);
      bytes += sizeof(Digest) + 2 + (job.ask.with_paths() ? p.path.size() + 2 : 0) + p.label.size();
    }
    i.set_last(at == photos.size());
    if (i.last()) {
      uint64_t bytes = 0;
      for (const StorePhoto& p : photos) bytes += static_cast<uint64_t>(p.bytes);
      i.set_photo_bytes(bytes);
      i.set_unreadable(job.inventory->unreadable);
      i.set_survey_seconds(job.inventory->seconds);
    }
    answer(job, std::move(m));
  } while (at < photos.size());
}

void PipeStoreService::pump(uint64_t id) {
  Job& job = jobs_.at(id);
  if (opened_ != id) return;  // another job has begun
  while (job.tasks < kTasks) {
    std::optional<RowWork::Batch> batch = job.work->next(kBatch);
    if (!batch) return;
    ++job.tasks;
    std::vector<size_t> places;
    for (const RowWork::Photo& p : batch->photos) places.push_back(p.place);
    setting_.lanes.start(0,
                         [this, id, serial = job.serial, batch = std::move(*batch),
                          places = std::move(places)]() -> Continuation {
                           Result<RowMaker::Made> result =
                               tried([&] { return setting_.maker.make(places); });
                           return [this, id, serial, batch, result = std::move(result)] {
                             if (is_current(id, serial)) made(id, batch, result);
                           };
                         });
  }
}

void PipeStoreService::made(uint64_t id, const RowWork::Batch& batch,
                            const Result<RowMaker::Made>& made) {
  if (!made.ok()) return refuse(id, made.status().message());
  const bool whole = std::ranges::all_of(
      made->rows, [](const std::string& row) { return row.size() <= kWholeRow; });
  if (!whole && session_.protocol() < kSpeaksOfPieces) {
    return refuse(id,
                  "a row is larger than " + std::to_string(kWholeRow) +
                      " bytes, the most that this Tuner's version of ndtrain takes: upgrade it");
  }
  Job& job = jobs_.at(id);
  --job.tasks;
  rows_made_ += made->rows.size();
  std::vector<RowWork::BadRow> bad;
  for (const RowMaker::Bad& b : made->bad) {
    const auto photo = std::ranges::find(batch.photos, b.place, &RowWork::Photo::place);
    bad.push_back({photo->number, job.inventory->photos.at(b.place).path, b.reason});
  }
  auto& stages = job.stages[batch.run];
  for (const auto& [name, seconds] : made->stages) {
    stages[name] += seconds;
    stages_[name] += seconds;
  }
  auto& made_from = job.made_from[batch.run];
  for (const auto& [what, rows] : made->made_from) made_from[what] += rows;
  if (made->joules) job.joules[batch.run] += *made->joules;
  for (wire::FromStore& m : job.work->done(batch, made->rows, bad, made->busy)) {
    if (m.has_run_done()) {
      if (const auto j = job.joules.find(batch.run); j != job.joules.end()) {
        m.mutable_run_done()->set_joules(j->second);
      }
      for (const auto& [name, seconds] : stages) {
        wire::Stage& s = *m.mutable_run_done()->add_stages();
        s.set_name(name);
        s.set_seconds(seconds);
      }
      m.mutable_run_done()->mutable_made_from()->insert(made_from.begin(), made_from.end());
    }
    answer(job, std::move(m));
  }
  pump(id);
}

}  // namespace ndtrain
