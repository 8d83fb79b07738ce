#include "ndp/pipestore/photo_row_maker.h"

#include <zstd.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/text.h"
#include "ndp/engine/crops.h"
#include "ndp/jobs/low_precision.h"
#include "ndp/labels/top_k_row.h"
#include "ndp/photos/upload_path.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Names that are too long, no UTF-8, or have control characters.
void warn_of(const char* what, const std::set<std::string>& names) {
  if (names.empty()) return;
  log::warn("{} {} are too long, no UTF-8, or have control characters: rename '{}'{}", names.size(),
            what, printable(*names.begin(), 256), names.size() == 1 ? "" : " and the others");
}

void add_stages(const EngineStats& stats, RowMaker::Made& made) {
  made.stages["load"] += stats.load_s;
  made.stages["decode"] += stats.decode_s;
  made.stages["resize"] += stats.resize_s;
  made.stages["normalise"] += stats.normalise_s;
  made.stages["extract"] += stats.infer_s;
}

}  // namespace

PhotoRowMaker::PhotoRowMaker(PhotoRowConfig config, Devices& devices, Fs& fs, Clock& clock)
    : config_(std::move(config)),
      devices_(devices),
      fs_(fs),
      photos_(fs, config_.photos, config_.state),
      energy_(fs) {
  catalogue_ = open_catalogue(fs_, config_.cache, config_.photos);
  auto cache = SegmentStore::open(fs_, clock, join(config_.cache, "features"),
                                  {.budget_bytes = config_.cache_bytes});
  if (!cache.ok()) throw Error("feature cache: ", cache.status().message());
  cache_ = std::move(*cache);
  const Result<CatalogueCounts> counts = catalogue_->counts();
  if (counts.ok()) collection_ = counts->ok;
  if (config_.uploads) collection_ -= config_.uploads->counts().photos;
  say_what_was_found();
  count_ = count();
}

PhotoRowMaker::~PhotoRowMaker() {
  if (const Status s = cache_->close(); !s.ok()) log::warn("feature cache: {}", s.message());
}

std::string PhotoRowMaker::label_of(const std::string& path) const {
  if (config_.labels == "none") return "";
  if (config_.labels != "folder") {
    const auto it = csv_.find(path);
    return it == csv_.end() ? "" : it->second;
  }
  if (is_upload_path(path)) return "";
  std::string_view rest = path;
  for (size_t slash; (slash = rest.find('/')) != std::string_view::npos;) {
    const std::string_view first = rest.substr(0, slash);
    if (first != "train" && first != "val") return std::string(first);
    rest.remove_prefix(slash + 1);
  }
  return "";
}

void PhotoRowMaker::say_what_was_found() {
  if (const int64_t n = photos_.left_by_older(); n > 0 && !said_older_) {
    said_older_ = true;
    log::info("{} photos in {} were uploaded to an older version; they stay in use, as no class", n,
              join(config_.photos, kUploadDirectory));
  }
  if (config_.labels != "none" || said_folders_) return;
  const std::string hint = class_folders_hint(fs_, config_.photos);
  said_folders_ = !hint.empty();
  if (said_folders_) log::info("{}: {}", config_.photos, hint);
}

// What was uploaded here is nobody else's.
bool PhotoRowMaker::in_shard(const std::string& path) const {
  return photos_.is_upload(path) ||
         xxh3(path.data(), path.size()) % config_.shards == config_.shard;
}

// Of files that no scan has seen yet the name must do; of others copies count once, and bad ones
// not.
uint64_t PhotoRowMaker::count() {
  constexpr size_t kPage = 10'000;
  std::unordered_map<std::string, CatalogueEntry> seen;
  for (std::string after; true;) {
    auto page = catalogue_->entries_after(after, kPage).or_throw();
    if (page.empty()) break;
    after = page.back().ref.path;
    for (CatalogueEntry& e : page) {
      std::string path = e.ref.path;
      seen.emplace(std::move(path), std::move(e));
    }
  }
  std::set<Digest> photos;
  uint64_t unseen = 0;
  for (std::string cursor; true;) {
    const Result<PhotoPage> page = photos_.list(cursor, kPage);
    if (!page.ok()) {
      log::warn("{}: {}", config_.photos, page.status().message());
      return 0;
    }
    for (const PhotoRef& file : page->photos) {
      if (!in_shard(file.path)) continue;
      const auto e = seen.find(file.path);
      if (e == seen.end() || e->second.ref != file) {
        unseen += can_decode(format_of_extension(extension_of(file.path)));
      } else if (e->second.state == PhotoState::kOk && e->second.digest) {
        photos.insert(*e->second.digest);
      }
    }
    if (page->next.empty()) return photos.size() + unseen;
    cursor = page->next;
  }
}

Result<StoreInventory> PhotoRowMaker::scan() {
  NoProgress quiet;
  if (config_.labels != "folder" && config_.labels != "none") {
    const auto csv = read_labels_csv(fs_, config_.labels, config_.photos);
    if (!csv.ok()) return csv.status();
    csv_.clear();
    for (const LabelledPhotos::Item& i : csv->items) {
      csv_[i.path] = csv->classes[static_cast<size_t>(i.label)];
    }
  }
  const PhotoSet set = all_photos(photos_, *catalogue_, config_.photos, quiet);
  say_what_was_found();
  const auto collection =
      std::ranges::count_if(set.photos, [&](const Photo& p) { return !photos_.is_upload(p.path); });
  if (collection == 0 && collection_ > 0) {
    return Status(Code::kNotFound, "all " + std::to_string(collection_) + " photos are gone from " +
                                       config_.photos + "; is it mounted?");
  }
  collection_ = collection;
  StoreInventory inventory;
  inventory.unreadable = static_cast<uint64_t>(std::ranges::count_if(
      set.quarantined, [this](const QuarantinedPhoto& p) { return in_shard(p.path); }));
  std::vector<Digest> deleted;
  std::set<std::string> paths, labels;  // that cannot be said to a Tuner
  for (const Photo& p : set.photos) {
    if (!in_shard(p.path)) continue;
    if (!wire::is_photo_path(p.path)) {
      paths.insert(p.path);
      continue;
    }
    const auto said = config_.uploads ? config_.uploads->said(p.digest) : UploadLog::Said();
    if (said.removed) {
      deleted.push_back(p.digest);
      continue;
    }
    const bool human = !said.truth.empty();
    std::string label = human ? said.truth : label_of(p.path);
    if (!label.empty() && !wire::is_class_name(label)) labels.insert(std::exchange(label, ""));
    inventory.photos.push_back({.digest = p.digest,
                                .path = p.path,
                                .label = label,
                                .source = human          ? LabelSource::kHuman
                                          : csv_.empty() ? LabelSource::kFolder
                                                         : LabelSource::kImport,
                                .bytes = p.bytes});
  }
  forget(deleted);
  inventory.unreadable += paths.size();
  warn_of("photos are left out, since their names", paths);
  warn_of("labels are left out, since they", labels);
  std::ranges::stable_sort(inventory.photos, {}, &StorePhoto::digest);
  const auto twice = std::ranges::unique(inventory.photos, {}, &StorePhoto::digest);
  inventory.photos.erase(twice.begin(), twice.end());
  take(inventory);
  return inventory;
}

void PhotoRowMaker::forget(std::span<const Digest> deleted) const {
  if (deleted.empty() || !config_.forget) return;
  const Status s = config_.forget(deleted);
  if (s.ok()) {
    log::info("{} files of deleted photos are removed from {}", deleted.size(), config_.photos);
  } else {
    log::warn("files of deleted photos stay for now, unused: {}", s.message());
  }
}

void PhotoRowMaker::take(StoreInventory inventory) {
  count_ = inventory.photos.size();
  inventory_ = std::move(inventory);
}

Result<RowWork::RowSize> PhotoRowMaker::open(const wire::Job& job, const std::string& extractor,
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
    if (labels) return RowWork::RowSize{.bytes = job.top_k() * kRankedClassBytes};
    return RowWork::RowSize{.bytes = network_->row_bytes()};
  }
  if (job.rows() == wire::Job::FILES) {
    uint64_t bytes = 1;
    for (const StorePhoto& p : inventory_.photos) bytes += static_cast<uint64_t>(p.bytes);
    const size_t n = std::max<size_t>(1, inventory_.photos.size());
    return RowWork::RowSize{.bytes = bytes / n + 1, .varies = true};
  }
  const auto declared = from_metadata({job.preprocessing().begin(), job.preprocessing().end()});
  if (!declared) return Status(Code::kCorrupt, "the job does not say how photos are preprocessed");
  preprocess_ = *declared;
  return RowWork::RowSize{.bytes = preprocess_.values(),
                          .varies = job.rows() == wire::Job::PACKED_CROPS};
}

void PhotoRowMaker::close() { network_.reset(); }

Result<std::string> PhotoRowMaker::read(size_t place) const {
  return fs_.read(photos_.file_of(inventory_.photos[place].path), limits::kPhotoFile);
}

Result<RowMaker::Made> PhotoRowMaker::make(std::span<const size_t> places) {
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
      made = files(places);
      break;
    default:
      made = crops(places, job_.rows() == wire::Job::PACKED_CROPS);
  }
  made.busy = seconds_since(start);
  made.joules = energy_.take();
  return made;
}

Result<std::string> PhotoRowMaker::sample(std::span<const std::string> photos) {
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

double PhotoRowMaker::bf16_gain() { return ndtrain::bf16_gain(devices_.get(false)); }

size_t PhotoRowMaker::next_piece(size_t n) const {
  const bool small = config_.courtesy && config_.courtesy->give_way();
  return small ? std::min(n, Courtesy::kSmallPiece) : n;
}

std::string PhotoRowMaker::cached_row(const Digest& photo) const {
  Network& n = *network_;
  if (!n.has_features()) return {};
  std::string row(n.row_bytes(), '\0');
  const auto found = cache_->get(n.id(), photo, std::as_writable_bytes(std::span(row)));
  const bool whole = found.ok() && found->bytes == n.row_bytes() &&
                     found->meta.numerics == n.numerics() && n.is_finite(row);
  return whole ? row : "";
}

std::vector<std::string> PhotoRowMaker::extract(std::span<const size_t> places, Made& made) {
  Network& n = *network_;
  std::vector<std::string> rows(places.size());
  const auto photo = [&](size_t i) -> const StorePhoto& { return inventory_.photos[places[i]]; };
  std::vector<size_t> missing;
  for (size_t i = 0; i < places.size(); ++i) {
    rows[i] = cached_row(photo(i).digest);
    if (rows[i].empty()) missing.push_back(i);
  }
  bool keep = n.has_features();
  const auto made_row = [&](size_t i, std::string row) {
    if (!n.is_finite(row)) {
      made.bad.push_back({places[i], "the extractor makes NaN or Inf of it"});
      return;
    }
    rows[i] = std::move(row);
    if (!keep) return;
    const Status s =
        cache_->put(n.id(), photo(i).digest, {.dtype = n.dtype(), .numerics = n.numerics()},
                    std::as_bytes(std::span(rows[i])));
    if (!s.ok()) log::warn("features are not kept for the next time: {}", s.message());
    keep = s.ok();
  };
  made.made_from["features"] += places.size() - missing.size();
  if (missing.empty()) return rows;
  CropCache kept(*cache_, n.preprocess(), config_.compress_crops);
  const std::function<const Digest&(size_t)> digest = [&](size_t i) -> const Digest& {
    return photo(i).digest;
  };
  const Engine::Crops crops = kept.with(digest);
  for (std::span<const size_t> rest = missing; !rest.empty() && !given_up();) {
    const size_t piece = next_piece(rest.size());
    size_t done = 0;
    const EngineStats stats = n.engine().run(
        rest.first(piece), [&](size_t i) { return photo(i).path; },
        [&](size_t i) { return read(places[i]); },
        [&](const Engine::Batch& batch) {
          std::vector<std::string> fresh = n.rows(batch.outputs, batch.items.size());
          for (size_t r = 0; r < fresh.size(); ++r) made_row(batch.items[r], std::move(fresh[r]));
          for (const BadPhoto& b : batch.bad) {
            made.bad.push_back({places[b.item], b.reason.message()});
          }
          done += batch.items.size() + batch.bad.size();
          return !given_up() && (!config_.courtesy || !config_.courtesy->busy());
        },
        &crops);
    add_stages(stats, made);
    const auto from_crops = static_cast<uint64_t>(std::min(stats.crops, stats.photos));
    made.made_from["crops"] += from_crops;
    made.made_from["photos"] += static_cast<uint64_t>(stats.photos) - from_crops;
    rest = rest.subspan(done);
  }
  if (const Status s = cache_->flush(); !s.ok()) log::warn("feature cache: {}", s.message());
  return rows;
}

RowMaker::Made PhotoRowMaker::features(std::span<const size_t> places) {
  Made made;
  for (std::string& row : extract(places, made)) {
    if (!row.empty()) made.rows.push_back(std::move(row));
  }
  return made;
}

RowMaker::Made PhotoRowMaker::labels(std::span<const size_t> places) {
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

RowMaker::Made PhotoRowMaker::crops(std::span<const size_t> places, bool packed) {
  Made made;
  std::vector<std::string> rows(places.size());
  std::vector<std::string> reasons(places.size());
  std::vector<PhotoCost> costs(places.size());
  CropCache kept(*cache_, preprocess_, config_.compress_crops);
  shared_threads().parallel_for(
      static_cast<int64_t>(places.size()), 1, [&](int64_t from, int64_t to) {
        for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
          const StorePhoto& photo = inventory_.photos[places[i]];
          const auto image = [&]() -> Result<Image> {
            if (std::optional<Image> crop = kept.get(photo.digest)) return std::move(*crop);
            const Result<std::string> file = read(places[i]);
            if (!file.ok()) return file.status();
            Result<Image> made_now = crop_photo(photo.path, *file, preprocess_, costs[i]);
            if (made_now.ok()) kept.put(photo.digest, *made_now);
            return made_now;
          }();
          if (!image.ok()) {
            reasons[i] = image.status().message();
            continue;
          }
          rows[i].assign(image->rgb.begin(), image->rgb.end());
          if (!packed) continue;
          std::string small(ZSTD_compressBound(rows[i].size()), '\0');
          const size_t n =
              ZSTD_compress(small.data(), small.size(), rows[i].data(), rows[i].size(), 3);
          if (ZSTD_isError(n)) throw Error("zstd: ", ZSTD_getErrorName(n));
          small.resize(n);
          rows[i] = std::move(small);
        }
      });
  for (size_t i = 0; i < places.size(); ++i) {
    made.stages["decode"] += costs[i].decode_s;
    made.stages["resize"] += costs[i].resize_s;
    if (rows[i].empty()) {
      made.bad.push_back({places[i], reasons[i]});
    } else {
      made.rows.push_back(std::move(rows[i]));
    }
  }
  return made;
}

RowMaker::Made PhotoRowMaker::files(std::span<const size_t> places) {
  Made made;
  const auto start = std::chrono::steady_clock::now();
  for (const size_t place : places) {
    Result<std::string> file = read(place);
    if (!file.ok()) {
      made.bad.push_back({place, file.status().message()});
    } else if (file->empty()) {
      made.bad.push_back({place, "an empty file"});
    } else {
      made.rows.push_back(std::move(*file));
    }
  }
  made.stages["load"] += seconds_since(start);
  return made;
}

}  // namespace ndtrain
