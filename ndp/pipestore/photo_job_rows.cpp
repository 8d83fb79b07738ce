#include "ndp/pipestore/photo_job_rows.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "framework/core/log.h"
#include "framework/runtime/backend.h"
#include "ndp/engine/crops.h"
#include "ndp/labels/top_k_row.h"
#include "ndp/pipestore/job_photos.h"
#include "ndp/pipestore/plain_rows.h"

namespace ndtrain::ndp {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void add_stages(const EngineStats& stats, JobRows::Made& made) {
  made.stages["load"] += stats.load_s;
  made.stages["decode"] += stats.decode_s;
  made.stages["resize"] += stats.resize_s;
  made.stages["normalise"] += stats.normalise_s;
  made.stages["extract"] += stats.infer_s;
}

void say_full(const Status& s) {
  log::warn("features are not kept for the next time: {}", s.message());
}

}  // namespace

PhotoJobRows::PhotoJobRows(const Ports& ports, What what)
    : ports_(ports), what_(std::move(what)), energy_(ports.fs), hashes_(ports.cache) {
  if (what_.views.views == 0) return;
  EngineOptions options = ports_.config.engine();
  options.crop = [this](size_t item, const std::string& name, std::string_view file,
                        PhotoCost& cost) {
    return crop_view(name, file, photo(view_.places[item]).digest, what_.views, view_.number,
                     what_.network->preprocess(), cost, ports_.config.decoding());
  };
  view_engine_ = std::make_unique<Engine>(what_.network->plans(), what_.network->preprocess(),
                                          std::move(options));
}

Result<JobRows::Made> PhotoJobRows::make(std::span<const size_t> places) {
  return measured([&]() -> Result<Made> {
    switch (what_.job.rows()) {
      case wire::Job::FEATURES:
        return features(places);
      case wire::Job::LABELS:
        return labels(places);
      case wire::Job::FILES:
        return file_rows(ports_.files, *what_.photos, places);
      default: {
        CropCache kept(ports_.cache, what_.preprocess, ports_.config.compress_crops);
        return crop_rows(ports_.files, *what_.photos, places, kept, what_.preprocess,
                         ports_.config.decoding(), what_.job.rows() == wire::Job::PACKED_CROPS);
      }
    }
  });
}

Result<JobRows::Made> PhotoJobRows::make_views(std::span<const size_t> places) {
  return measured([&] { return views(places); });
}

Result<JobRows::Made> PhotoJobRows::measured(const std::function<Result<Made>()>& make) {
  const auto start = std::chrono::steady_clock::now();
  (void)energy_.take();  // what was used between two calls is nobody's
  away_ = {};
  Result<Made> made = make();
  if (!away_.ok()) return away_;
  if (!made.ok()) return made;
  made->busy = seconds_since(start);
  made->joules = energy_.take();
  return made;
}

Result<std::string> PhotoJobRows::sample(std::span<const std::string> photos) {
  if (!what_.network) return Status(Code::kCorrupt, "the job has a sample of photos and no model");
  std::vector<size_t> all(photos.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::string rows;
  Status bad;
  what_.network->engine().run(
      all, [](size_t) { return std::string("sample.jpg"); },
      [&](size_t i) -> Result<std::string> { return photos[i]; },
      [&](const Engine::Batch& batch) {
        if (!batch.bad.empty()) bad = batch.bad.front().reason;
        for (const std::string& row : what_.network->rows(batch.outputs, batch.items.size())) {
          rows += row;
        }
        return bad.ok();
      });
  if (!bad.ok()) return bad;
  return rows;
}

Result<std::vector<std::optional<uint64_t>>> PhotoJobRows::hashes(std::span<const size_t> places) {
  std::vector<std::optional<uint64_t>> all(places.size());
  std::vector<size_t> missing, read;
  for (size_t i = 0; i < places.size(); ++i) {
    all[i] = hashes_.get(photo(places[i]).digest);
    if (all[i]) continue;
    missing.push_back(i);
    read.push_back(places[i]);
  }
  JobPhotos files(ports_.files, *what_.photos, read);
  std::vector<Result<uint64_t>> made(read.size(), Status(Code::kCancelled, ""));
  shared_threads().parallel_for(std::ssize(read), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end) && !given_up_; ++i) {
      const Result<std::string> file = files.read(read[i]);
      made[i] = file.ok() ? hash_photo(photo(read[i]).path, *file, ports_.config.decoding())
                          : Result<uint64_t>(file.status());
    }
  });
  for (size_t i = 0; i < read.size(); ++i) {
    if (made[i].status().code() == Code::kUnavailable) return made[i].status();
    if (!made[i].ok()) continue;
    all[missing[i]] = *made[i];
    hashes_.put(photo(read[i]).digest, *made[i]);
  }
  if (const Status s = ports_.cache.flush(); !s.ok()) log::warn("feature cache: {}", s.message());
  return all;
}

size_t PhotoJobRows::next_piece(size_t n) const {
  const bool small =
      ports_.config.upload_priority && ports_.config.upload_priority->yield_to_uploads();
  return small ? std::min(n, UploadPriority::kSmallPiece) : n;
}

std::string PhotoJobRows::cached_row(const FeatureRows& features, const Digest& photo) const {
  std::string row(what_.network->row_bytes(), '\0');
  const auto numerics = features.cached(photo, std::as_writable_bytes(std::span(row)));
  return numerics == what_.network->numerics() && what_.network->is_finite(row) ? row : "";
}

PhotoJobRows::Extraction PhotoJobRows::of_photos() {
  Network& n = *what_.network;
  return {n.engine(), FeatureRows(n.has_features() ? &ports_.cache : nullptr, n.features())};
}

void PhotoJobRows::take_bad(size_t place, const Status& why, Made& made) {
  if (why.code() == Code::kUnavailable) {
    away_ = why;
  } else {
    made.bad.push_back({place, why.message()});
  }
}

std::vector<std::string> PhotoJobRows::extract(std::span<const size_t> places, Extraction by,
                                               Made& made) {
  const Network& n = *what_.network;
  std::vector<std::string> rows(places.size());
  const std::function<const Digest&(size_t)> digest = [&](size_t i) -> const Digest& {
    return photo(places[i]).digest;
  };
  std::vector<size_t> missing;
  for (size_t i = 0; i < places.size(); ++i) {
    rows[i] = cached_row(by.features, digest(i));
    if (rows[i].empty()) missing.push_back(i);
  }
  made.made_from["features"] += places.size() - missing.size();
  if (missing.empty()) return rows;
  CropCache kept(ports_.cache, n.preprocess(), ports_.config.compress_crops);
  const Engine::Crops crops = kept.with(digest);
  std::vector<size_t> read;
  for (const size_t i : missing) {
    if (!by.from_crops || !kept.has(digest(i))) read.push_back(places[i]);
  }
  JobPhotos files(ports_.files, *what_.photos, read);
  size_t done = 0;
  const FeatureRows::Photos photos{
      .digest = digest,
      .name = [&](size_t i) { return photo(places[i]).path; },
      .open = [&](size_t i) { return files.read(places[i]); },
      .crops = by.from_crops ? &crops : nullptr,
      .take =
          [&](size_t i, std::span<const std::byte> row) {
            std::string bytes(reinterpret_cast<const char*>(row.data()), row.size());
            const bool finite = n.is_finite(bytes);
            if (finite) rows[i] = std::move(bytes);
            if (!finite) made.bad.push_back({places[i], "the extractor makes NaN or Inf of it"});
            return finite;
          },
      .bad = [&](const BadPhoto& b) { take_bad(places[b.item], b.reason, made); },
      .full = say_full,
      .go_on =
          [&](size_t some) {
            done += some;
            return !given_up_ && away_.ok() &&
                   (!ports_.config.upload_priority || !ports_.config.upload_priority->busy());
          }};
  for (std::span<const size_t> rest = missing; !rest.empty() && !given_up_ && away_.ok();) {
    done = 0;
    const EngineStats stats =
        by.features.extract(by.engine, rest.first(next_piece(rest.size())), photos);
    add_stages(stats, made);
    made.photo_bytes += static_cast<uint64_t>(stats.bytes);
    const auto from_crops = static_cast<uint64_t>(std::min(stats.crops, stats.photos));
    made.made_from["crops"] += from_crops;
    made.made_from["photos"] += static_cast<uint64_t>(stats.photos) - from_crops;
    rest = rest.subspan(done);
  }
  if (const Status s = ports_.cache.flush(); !s.ok()) log::warn("feature cache: {}", s.message());
  return rows;
}

JobRows::Made PhotoJobRows::features(std::span<const size_t> places) {
  Made made;
  for (std::string& row : extract(places, of_photos(), made)) {
    if (!row.empty()) made.rows.push_back(std::move(row));
  }
  return made;
}

// A photo of which one view cannot be made is bad as a whole, and is said to be once.
JobRows::Made PhotoJobRows::views(std::span<const size_t> places) {
  Made made;
  std::vector<size_t> good(places.begin(), places.end());
  std::map<size_t, std::string> rows;  // by place
  FeatureKind kind = what_.network->features();
  view_.number = 0;
  for (const Digest& group : groups_of_views(what_.network->id(), what_.views)) {
    if (!away_.ok()) return made;
    kind.extractor = group;
    view_.places = good;
    const std::vector<std::string> of_view =
        extract(good, {*view_engine_, FeatureRows(&ports_.cache, kind), false}, made);
    size_t next = 0;
    std::erase_if(good, [&](size_t place) {
      const std::string& row = of_view[next++];
      rows[place] += row;
      return row.empty();
    });
    ++view_.number;
  }
  for (const size_t place : good) made.rows.push_back(std::move(rows.at(place)));
  return made;
}

void PhotoJobRows::tell_of_labels(std::span<const size_t> places,
                                  const std::vector<std::vector<ClassScore>>& best) const {
  JobLabels labels{.model = what_.job.extractor() + what_.job.head(), .photos = {}};
  for (size_t i = 0; i < places.size(); ++i) {
    if (best[i].empty()) continue;
    labels.photos.push_back({.id = photo(places[i]).digest,
                             .path = photo(places[i]).path,
                             .label = what_.network->class_name(best[i].front().id),
                             .score = best[i].front().score});
  }
  ports_.config.labelled(std::move(labels));
}

JobRows::Made PhotoJobRows::labels(std::span<const size_t> places) {
  Made made;
  std::vector<std::string> rows = extract(places, of_photos(), made);
  std::vector<size_t> labelled;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].empty()) labelled.push_back(places[i]);
  }
  std::erase_if(rows, [](const std::string& row) { return row.empty(); });
  if (rows.empty()) return made;
  const auto start = std::chrono::steady_clock::now();
  const auto classified = what_.network->classify(rows, what_.job.top_k());
  if (ports_.config.labelled) tell_of_labels(labelled, classified);
  for (const std::vector<ClassScore>& best : classified) {
    std::vector<RankedClass> ranked(what_.job.top_k());
    std::ranges::transform(best, ranked.begin(), [](const ClassScore& c) {
      return RankedClass{static_cast<uint32_t>(c.id), c.score};
    });
    made.rows.push_back(top_k_row(ranked));
  }
  made.stages["classify"] += seconds_since(start);
  return made;
}

}  // namespace ndtrain::ndp
