#include "ndp/pipestore/photo_row_maker.h"

#include <zstd.h>

#include <algorithm>
#include <bit>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/train/step_graph.h"
#include "ndp/engine/numerics.h"
#include "ndp/jobs/classify.h"
#include "ndp/jobs/features.h"
#include "ndp/store/coding.h"

namespace ndtrain {
namespace {

constexpr int64_t kRowFile = limits::kMessage - (int64_t{64} << 10);  // with what is around it

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void add_stages(const EngineStats& stats, RowMaker::Made& made) {
  made.stages["load"] += stats.load_s;
  made.stages["decode"] += stats.decode_s;
  made.stages["resize"] += stats.resize_s;
  made.stages["normalise"] += stats.normalise_s;
  made.stages["extract"] += stats.infer_s;
}

}  // namespace

struct PhotoRowMaker::Network {
  Network(const ModelFile& e, const ModelFile* h, const Device& device, int64_t batch)
      : extractor(e),
        id(extractor_id(e.model, e.preprocess)),
        numerics(numerics_tag(feature_numerics(device))),
        plans(
            [this, whole = h == nullptr](int64_t b) {
              const Graph g = bind(extractor.model, b);
              return optimize_for_inference(whole && labels ? with_plain_logits(g) : g);
            },
            device, batch),
        engine(plans, e.preprocess, {.batch = batch}) {
    const Graph g = bind(extractor.model, 1);
    for (const ValueId v : g.outputs()) types.push_back(g.type(v));
    for (const TensorType& t : types) row_bytes += bytes_of_row(t);
    if (!h) return;
    head = *h;
    head_plans = std::make_unique<BatchPlans>(
        [this](int64_t b) {
          return optimize_for_inference(with_plain_logits(bind(head.model, b)));
        },
        device, batch);
  }

  ModelFile extractor, head;
  Digest id;
  uint64_t numerics;
  bool labels = false;  // the rows are labels
  BatchPlans plans;
  Engine engine;
  std::vector<TensorType> types;  // of the extractor's outputs for a batch of 1
  size_t row_bytes = 0;
  std::unique_ptr<BatchPlans> head_plans;
};

PhotoRowMaker::PhotoRowMaker(PhotoRowConfig config, Devices& devices, Fs& fs, Clock& clock)
    : config_(std::move(config)), devices_(devices), fs_(fs), energy_(fs) {
  catalogue_ = open_catalogue(fs_, config_.cache, config_.photos);
  auto cache = SegmentStore::open(fs_, clock, join(config_.cache, "features"),
                                  {.budget_bytes = config_.cache_bytes});
  if (!cache.ok()) throw Error("feature cache: ", cache.status().message());
  cache_ = std::move(*cache);
  const Result<CatalogueCounts> counts = catalogue_->counts();
  if (counts.ok()) known_ = static_cast<uint64_t>(counts->ok);
}

PhotoRowMaker::~PhotoRowMaker() {
  try {
    (void)cache_->close();
  } catch (const std::exception& e) {
    log::warn("feature cache: {}", e.what());  // it can be computed again
  }
}

std::string PhotoRowMaker::label_of(const std::string& path) const {
  if (config_.labels == "none") return "";
  if (config_.labels != "folder") {
    const auto it = csv_.find(path);
    return it == csv_.end() ? "" : it->second;
  }
  std::string_view rest = path;
  for (size_t slash; (slash = rest.find('/')) != std::string_view::npos;) {
    const std::string_view first = rest.substr(0, slash);
    if (first != "train" && first != "val") return std::string(first);
    rest.remove_prefix(slash + 1);
  }
  return "";
}

bool PhotoRowMaker::in_shard(const std::string& path) const {
  return xxh3(path.data(), path.size()) % config_.shards == config_.shard;
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
  const PhotoSet set = all_photos(fs_, *catalogue_, config_.photos, quiet);
  if (set.photos.empty() && known_ > 0) {
    return Status(Code::kNotFound, "all " + std::to_string(known_) + " photos are gone from " +
                                       config_.photos + "; is it mounted?");
  }
  StoreInventory inventory{.photos = {}, .unreadable = set.quarantined.size()};
  for (const Photo& p : set.photos) {
    if (!in_shard(p.path)) continue;
    inventory.photos.push_back(
        {.digest = p.digest,
         .path = p.path,
         .label = label_of(p.path),
         .source = csv_.empty() ? LabelSource::kFolder : LabelSource::kImport,
         .bytes = p.bytes});
  }
  std::ranges::stable_sort(inventory.photos, {}, &StorePhoto::digest);
  const auto twice = std::ranges::unique(inventory.photos, {}, &StorePhoto::digest);
  inventory.photos.erase(twice.begin(), twice.end());
  known_ = inventory.photos.size();
  inventory_ = inventory;
  return inventory;
}

Result<RowWork::RowSize> PhotoRowMaker::open(const wire::Job& job, const std::string& extractor,
                                             const std::string& head) {
  network_.reset();
  job_ = job;
  if (job.rows() == wire::Job::FEATURES || job.rows() == wire::Job::LABELS) {
    if (extractor.empty()) return Status(Code::kCorrupt, "the job names no model");
    const ModelFile e = load_model(fs_, extractor);
    const ModelFile h = head.empty() ? ModelFile() : load_model(fs_, head);
    network_ = std::make_unique<Network>(e, head.empty() ? nullptr : &h,
                                         devices_.get(job.deterministic()), config_.batch);
    network_->labels = job.rows() == wire::Job::LABELS;
    if (network_->labels) return RowWork::RowSize{.bytes = job.top_k() * size_t{8}};
    return RowWork::RowSize{.bytes = network_->row_bytes};
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

Result<std::string> PhotoRowMaker::read(size_t place) const {
  return fs_.read(join(config_.photos, inventory_.photos[place].path), limits::kPhotoFile);
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

std::vector<std::string> PhotoRowMaker::extract(std::span<const size_t> places, Made& made) {
  Network& n = *network_;
  std::vector<std::string> rows(places.size());
  const bool cached = !n.labels || n.head_plans;  // a whole model's logits are not features
  std::vector<size_t> missing;
  for (size_t i = 0; i < places.size(); ++i) {
    if (cached) {
      rows[i].resize(n.row_bytes);
      const auto found = cache_->get(n.id, inventory_.photos[places[i]].digest,
                                     std::as_writable_bytes(std::span(rows[i])));
      if (found.ok() && found->bytes == n.row_bytes && found->meta.numerics == n.numerics) continue;
    }
    rows[i].clear();
    missing.push_back(i);
  }
  if (missing.empty()) return rows;
  const auto photo = [&](size_t i) -> const StorePhoto& { return inventory_.photos[places[i]]; };
  bool keep = cached;
  const EngineStats stats = n.engine.run(
      missing, [&](size_t i) { return photo(i).path; }, [&](size_t i) { return read(places[i]); },
      [&](const Engine::Batch& batch) {
        for (size_t r = 0; r < batch.items.size(); ++r) {
          std::string& row = rows[batch.items[r]];
          for (const Tensor& t : batch.outputs) {
            const size_t bytes = t.bytes() / static_cast<size_t>(t.shape()[0]);
            row.append(static_cast<const char*>(t.data()) + r * bytes, bytes);
          }
          if (!keep) continue;
          const Status s = cache_->put(n.id, photo(batch.items[r]).digest,
                                       {.dtype = n.types[0].dtype, .numerics = n.numerics},
                                       std::as_bytes(std::span(row)));
          if (!s.ok()) log::warn("features are not kept for the next time: {}", s.message());
          keep = s.ok();
        }
        for (const BadPhoto& b : batch.bad) {
          made.bad.push_back({places[b.item], b.reason.message()});
        }
        return true;
      });
  add_stages(stats, made);
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
  Network& n = *network_;
  const auto count = static_cast<int64_t>(rows.size());
  std::vector<Tensor> inputs;
  size_t offset = 0;
  for (const TensorType& t : n.types) {
    Tensor& input = inputs.emplace_back(TensorType{t.dtype, t.shape.with(0, count)});
    const size_t bytes = bytes_of_row(t);
    for (size_t r = 0; r < rows.size(); ++r) {
      std::memcpy(static_cast<std::byte*>(input.mutable_data()) + r * bytes,
                  rows[r].data() + offset, bytes);
    }
    offset += bytes;
  }
  const std::vector<Tensor> outputs = n.head_plans ? n.head_plans->run(inputs) : std::move(inputs);
  const auto classes = static_cast<size_t>(outputs[0].shape().count(1, outputs[0].shape().rank()));
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string& row = made.rows.emplace_back(job_.top_k() * size_t{8}, '\0');
    auto* to = reinterpret_cast<std::byte*>(row.data());
    for (const ClassScore& c :
         best_classes(outputs[0].as<float>().subspan(r * classes, classes), job_.top_k())) {
      store_le<uint32_t>(to, static_cast<uint32_t>(c.id));
      store_le<uint32_t>(to + 4, std::bit_cast<uint32_t>(c.score));
      to += 8;
    }
  }
  made.stages["classify"] += seconds_since(start);
  return made;
}

RowMaker::Made PhotoRowMaker::crops(std::span<const size_t> places, bool packed) {
  Made made;
  std::vector<std::string> rows(places.size());
  std::vector<std::string> reasons(places.size());
  std::vector<PhotoCost> costs(places.size());
  shared_threads().parallel_for(
      static_cast<int64_t>(places.size()), 1, [&](int64_t from, int64_t to) {
        for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
          const Result<std::string> file = read(places[i]);
          const Result<Image> image = file.ok() ? crop_photo(inventory_.photos[places[i]].path,
                                                             *file, preprocess_, costs[i])
                                                : Result<Image>(file.status());
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
    } else if (static_cast<int64_t>(file->size()) > kRowFile || file->empty()) {
      made.bad.push_back({place, std::to_string(file->size()) +
                                     " bytes: a photo that travels has 1 to " +
                                     std::to_string(kRowFile)});
    } else {
      made.rows.push_back(std::move(*file));
    }
  }
  made.stages["load"] += seconds_since(start);
  return made;
}

}  // namespace ndtrain
