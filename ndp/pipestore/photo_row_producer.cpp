#include "ndp/pipestore/photo_row_producer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "framework/core/log.h"
#include "ndp/engine/crops.h"
#include "ndp/jobs/low_precision.h"
#include "ndp/labels/top_k_row.h"
#include "ndp/pipestore/plain_rows.h"

namespace ndtrain::ndp {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void add_stages(const EngineStats& stats, RowProducer::Made& made) {
  made.stages["load"] += stats.load_s;
  made.stages["decode"] += stats.decode_s;
  made.stages["resize"] += stats.resize_s;
  made.stages["normalise"] += stats.normalise_s;
  made.stages["extract"] += stats.infer_s;
}

}  // namespace

PhotoRowProducer::PhotoRowProducer(PhotoRowConfig config, Devices& devices, Fs& fs, Clock& clock)
    : config_(std::move(config)), devices_(devices), fs_(fs), inventory_(config_, fs), energy_(fs) {
  auto cache = SegmentStore::open(fs_, clock, join(config_.cache, "features"),
                                  {.budget_bytes = config_.cache_bytes});
  if (!cache.ok()) throw Error("feature cache: ", cache.status().message());
  cache_ = std::move(*cache);
}

PhotoRowProducer::~PhotoRowProducer() {
  if (const Status s = cache_->close(); !s.ok()) log::warn("feature cache: {}", s.message());
}

Result<RowDelivery::RowSize> PhotoRowProducer::open(const wire::Job& job,
                                                    const std::string& extractor,
                                                    const std::string& head) {
  close();
  job_ = job;
  given_up_ = UINT64_MAX;
  if (job.rows() == wire::Job::FEATURES || job.rows() == wire::Job::LABELS) {
    if (extractor.empty()) return Status(Code::kCorrupt, "the job names no model");
    const bool labels = job.rows() == wire::Job::LABELS;
    network_ = std::make_unique<Network>(
        load_model(fs_, extractor),
        head.empty() ? nullptr : std::make_unique<ModelFile>(load_model(fs_, head)), labels,
        devices_.get(job.deterministic()), config_.batch);
    if (labels) return RowDelivery::RowSize{.bytes = job.top_k() * kRankedClassBytes};
    return RowDelivery::RowSize{.bytes = network_->row_bytes()};
  }
  if (job.rows() == wire::Job::FILES) {
    uint64_t bytes = 1;
    for (const StorePhoto& p : inventory_.last().photos) bytes += static_cast<uint64_t>(p.bytes);
    const size_t n = std::max<size_t>(1, inventory_.last().photos.size());
    return RowDelivery::RowSize{.bytes = bytes / n + 1, .varies = true};
  }
  const auto declared = from_metadata({job.preprocessing().begin(), job.preprocessing().end()});
  if (!declared) return Status(Code::kCorrupt, "the job does not say how photos are preprocessed");
  preprocess_ = *declared;
  return RowDelivery::RowSize{.bytes = preprocess_.values(),
                              .varies = job.rows() == wire::Job::PACKED_CROPS};
}

void PhotoRowProducer::close() { network_.reset(); }

Result<RowProducer::Made> PhotoRowProducer::make(std::span<const size_t> places) {
  const auto start = std::chrono::steady_clock::now();
  (void)energy_.take();  // what was used between two calls is nobody's
  Made made;
  switch (job_.rows()) {
    case wire::Job::FEATURES:
      made = features(places);
      break;
    case wire::Job::LABELS:
      made = labels(places);
      break;
    case wire::Job::FILES:
      made = file_rows(inventory_, places);
      break;
    default: {
      CropCache kept(*cache_, preprocess_, config_.compress_crops);
      made =
          crop_rows(inventory_, places, kept, preprocess_, job_.rows() == wire::Job::PACKED_CROPS);
    }
  }
  made.busy = seconds_since(start);
  made.joules = energy_.take();
  return made;
}

Result<std::string> PhotoRowProducer::sample(std::span<const std::string> photos) {
  if (!network_) return Status(Code::kCorrupt, "the job has a sample of photos and no model");
  std::vector<size_t> all(photos.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::string rows;
  Status bad;
  network_->engine().run(
      all, [](size_t) { return std::string("sample.jpg"); },
      [&](size_t i) -> Result<std::string> { return photos[i]; },
      [&](const Engine::Batch& batch) {
        if (!batch.bad.empty()) bad = batch.bad.front().reason;
        for (const std::string& row : network_->rows(batch.outputs, batch.items.size())) {
          rows += row;
        }
        return bad.ok();
      });
  if (!bad.ok()) return bad;
  return rows;
}

double PhotoRowProducer::bf16_gain() { return ndtrain::ndp::bf16_gain(devices_.get(false)); }

size_t PhotoRowProducer::next_piece(size_t n) const {
  const bool small = config_.upload_priority && config_.upload_priority->yield_to_uploads();
  return small ? std::min(n, UploadPriority::kSmallPiece) : n;
}

std::string PhotoRowProducer::cached_row(const FeatureRows& features, const Digest& photo) const {
  std::string row(network_->row_bytes(), '\0');
  const auto numerics = features.cached(photo, std::as_writable_bytes(std::span(row)));
  return numerics == network_->numerics() && network_->is_finite(row) ? row : "";
}

std::vector<std::string> PhotoRowProducer::extract(std::span<const size_t> places, Made& made) {
  Network& n = *network_;
  FeatureRows features(n.has_features() ? cache_.get() : nullptr, n.features());
  std::vector<std::string> rows(places.size());
  const std::function<const Digest&(size_t)> digest = [&](size_t i) -> const Digest& {
    return inventory_.last().photos[places[i]].digest;
  };
  std::vector<size_t> missing;
  for (size_t i = 0; i < places.size(); ++i) {
    rows[i] = cached_row(features, digest(i));
    if (rows[i].empty()) missing.push_back(i);
  }
  made.made_from["features"] += places.size() - missing.size();
  if (missing.empty()) return rows;
  CropCache kept(*cache_, n.preprocess(), config_.compress_crops);
  const Engine::Crops crops = kept.with(digest);
  size_t done = 0;
  const FeatureRows::Photos photos{
      .digest = digest,
      .name = [&](size_t i) { return inventory_.last().photos[places[i]].path; },
      .open = [&](size_t i) { return inventory_.read(places[i]); },
      .crops = &crops,
      .take =
          [&](size_t i, std::span<const std::byte> row) {
            std::string bytes(reinterpret_cast<const char*>(row.data()), row.size());
            const bool finite = n.is_finite(bytes);
            if (finite) rows[i] = std::move(bytes);
            if (!finite) made.bad.push_back({places[i], "the extractor makes NaN or Inf of it"});
            return finite;
          },
      .bad =
          [&](const BadPhoto& b) {
            made.bad.push_back({places[b.item], b.reason.message()});
          },
      .full =
          [](const Status& s) {
            log::warn("features are not kept for the next time: {}", s.message());
          },
      .go_on =
          [&](size_t some) {
            done += some;
            return !given_up() && (!config_.upload_priority || !config_.upload_priority->busy());
          }};
  for (std::span<const size_t> rest = missing; !rest.empty() && !given_up();) {
    done = 0;
    const EngineStats stats =
        features.extract(n.engine(), rest.first(next_piece(rest.size())), photos);
    add_stages(stats, made);
    const auto from_crops = static_cast<uint64_t>(std::min(stats.crops, stats.photos));
    made.made_from["crops"] += from_crops;
    made.made_from["photos"] += static_cast<uint64_t>(stats.photos) - from_crops;
    rest = rest.subspan(done);
  }
  if (const Status s = cache_->flush(); !s.ok()) log::warn("feature cache: {}", s.message());
  return rows;
}

RowProducer::Made PhotoRowProducer::features(std::span<const size_t> places) {
  Made made;
  for (std::string& row : extract(places, made)) {
    if (!row.empty()) made.rows.push_back(std::move(row));
  }
  return made;
}

RowProducer::Made PhotoRowProducer::labels(std::span<const size_t> places) {
  Made made;
  std::vector<std::string> rows = extract(places, made);
  std::erase_if(rows, [](const std::string& row) { return row.empty(); });
  if (rows.empty()) return made;
  const auto start = std::chrono::steady_clock::now();
  for (const std::vector<ClassScore>& best : network_->classify(rows, job_.top_k())) {
    std::vector<RankedClass> ranked(job_.top_k());
    std::ranges::transform(best, ranked.begin(), [](const ClassScore& c) {
      return RankedClass{static_cast<uint32_t>(c.id), c.score};
    });
    made.rows.push_back(top_k_row(ranked));
  }
  made.stages["classify"] += seconds_since(start);
  return made;
}

}  // namespace ndtrain::ndp
