#include "ndp/jobs/photo_embeddings.h"

#include <fmt/format.h>

#include <set>

#include "framework/core/limits.h"
#include "framework/passes/inference.h"
#include "ndp/jobs/transfer.h"
#include "ndp/similarity/embedding.h"

namespace ndtrain::ndp {
namespace {

// Those that differ, as a list of photos and of their places in the set.
struct DistinctPhotos {
  std::vector<Photo> photos;
  std::vector<size_t> of_set;
};

DistinctPhotos distinct(const PhotoSet& set) {
  DistinctPhotos all;
  std::set<Digest> seen;
  for (size_t i = 0; i < set.photos.size(); ++i) {
    if (!seen.insert(set.photos[i].digest).second) continue;
    all.photos.push_back(set.photos[i]);
    all.of_set.push_back(i);
  }
  return all;
}

void read_embeddings(FeatureTable& table, const DistinctPhotos& photos, PhotoEmbeddings& to) {
  const std::vector<TensorType>& types = table.row_types();
  to.rows.dimensions = embedding_size(types);
  std::vector<std::byte> row(table.row_bytes());
  std::vector<std::byte*> outputs;
  size_t at = 0;
  for (const TensorType& t : types) {
    outputs.push_back(row.data() + at);
    at += bytes_of_row(t);
  }
  for (size_t i = 0; i < photos.photos.size(); ++i) {
    if (!table.has(i)) continue;
    table.read(i, outputs);
    const std::optional<Embedding> embedding = embedding_of(types, row);
    if (!embedding) {
      to.quarantined.push_back({photos.photos[i].path, "its features are no numbers, or all 0"});
      continue;
    }
    to.rows.add(*embedding);
    to.photos.push_back(photos.of_set[i]);
  }
}

}  // namespace

PhotoEmbeddings embed_photos(const PhotoSet& set, const ModelFile& model,
                             const PhotoEmbeddingsConfig& config, const Device& device, Fs& fs,
                             Clock& clock, Progress& progress) {
  const TransferModel transfer =
      prepare_transfer(model, model.classes, "keep", "auto", DType::kF16, /*seed=*/0);
  if (transfer.features.empty()) {
    throw Error(model.path, ": has nothing in front of a classifier to compare photos by");
  }
  const std::string cache_directory =
      config.cache.empty() ? default_cache_directory() : config.cache;
  FeatureCache cache(fs, clock, cache_directory, "compares photos of " + set.root);
  BatchPlans plans([&](int64_t b) { return inference_graph(transfer.extractor, b); }, device,
                   config.batch);
  Engine engine(plans, model.preprocess, {.batch = config.batch});
  FeatureTable table(cache, transfer.extractor_id, row_types_of(transfer.extractor),
                     config.memory_limit > 0 ? config.memory_limit : half_of_free_memory());
  const DistinctPhotos photos = distinct(set);
  PhotoEmbeddings result;
  std::map<std::string, int64_t> skipped;
  const auto open = [&](size_t i) {
    return fs.read(join(set.root, photos.photos[i].path), limits::kPhotoFile);
  };
  result.extraction = table.fill(photos.photos, engine, open,
                                 {.id = feature_numerics(device), .exact = device.deterministic()},
                                 progress, result.quarantined, skipped);
  for (const auto& [format, n] : skipped) result.skipped += n;
  result.interrupted = progress.interrupted();
  progress.say(fmt::format("{} photos decoded and inferred, {} from the cache",
                           result.extraction.extracted, result.extraction.cached));
  if (!result.interrupted) read_embeddings(table, photos, result);
  return result;
}

}  // namespace ndtrain::ndp
