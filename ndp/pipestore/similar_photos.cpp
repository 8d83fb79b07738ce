#include "ndp/pipestore/similar_photos.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <shared_mutex>

#include "framework/core/log.h"
#include "framework/runtime/backend.h"
#include "ndp/similarity/index_division.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kPiece = 256;  // photos that are added while the thread may not be stopped
constexpr std::chrono::seconds kLook{1};
constexpr size_t kOutgrown = 4;        // times the photos that a partition was made for
constexpr size_t kAlmostNearest = 16;  // photos that may be nearer than their rounded numbers say

// Where a feature is no larger than its embedding, it is as soon made as read.
bool is_worth_keeping(const FeatureKind& features) {
  return features.row_bytes() > 2 * sizeof(float) * embedding_size(features.row_types);
}

}  // namespace

Digest embedding_group(const Digest& extractor) { return sha256("embedding " + to_hex(extractor)); }

Digest partition_group(const Digest& extractor) { return sha256("partition " + to_hex(extractor)); }

struct SimilarPhotos::Index {
  explicit Index(FeatureKind kind)
      : features(std::move(kind)), photos(embedding_size(features.row_types)) {}

  const FeatureKind features;
  // Of the thread that fills it.
  std::map<KeyTable::ShortKey, Digest> added;
  bool told_full = false, sought_partition = false;
  // Under SimilarPhotos::mutex_.
  uint64_t asked = 0, followed = 0;  // how often, and up to which question the cache was followed
  std::chrono::nanoseconds used{0};
  // Written by the thread that fills it.
  std::shared_mutex mutex;
  EmbeddingIndex photos;
  // A thread of its own writes `made`, and then that it has.
  IndexDivision made;
  std::atomic<bool> divided{false};
  std::jthread dividing;
};

SimilarPhotos::SimilarPhotos(SegmentStore& cache, Uploads& uploads, Clock& clock,
                             const Options& options)
    : cache_(cache), uploads_(uploads), clock_(clock), options_(options), thread_([this] {
        run();
      }) {}

SimilarPhotos::~SimilarPhotos() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  asked_.notify_all();
  full_.notify_all();
}

Result<std::shared_ptr<OnlineModel>> SimilarPhotos::model(std::string_view task) const {
  std::shared_ptr<OnlineModel> model = uploads_.model(task);
  const std::string of = " of task " + std::string(task);
  if (!model) {
    return Status(Code::kUnsupported,
                  "no version" + of + " is in force here: train one, and promote it");
  }
  if (!model->network->has_features()) {
    return Status(Code::kUnsupported,
                  "version " + std::to_string(model->version) + of +
                      " is one whole model, which has no features to compare photos by: fine-tune "
                      "it, and promote what comes of that");
  }
  return model;
}

Result<PhotoEmbedding> SimilarPhotos::embedding_of_row(const OnlineModel& model,
                                                       std::span<const std::byte> row) {
  const FeatureKind& features = model.network->features();
  std::optional<Embedding> values = embedding_of(features.row_types, row);
  if (!values) return Status(Code::kCorrupt, "the features of the photo are no numbers, or all 0");
  return PhotoEmbedding{features.extractor, model.version, std::move(*values)};
}

Result<PhotoEmbedding> SimilarPhotos::embedding(const Digest& photo, std::string_view task) {
  const Result<std::shared_ptr<OnlineModel>> by = model(task);
  if (!by.ok()) return by.status();
  const Result<std::string> file = uploads_.read(photo);
  if (!file.ok()) return file.status();
  const FeatureKind& features = (*by)->network->features();
  std::vector<std::byte> row(features.row_bytes());
  if (!FeatureRows(&cache_, features).cached(photo, row)) return embedding(*file, task);
  return embedding_of_row(**by, row);
}

Result<PhotoEmbedding> SimilarPhotos::embedding(const std::string& file, std::string_view task) {
  const Result<std::shared_ptr<OnlineModel>> by = model(task);
  if (!by.ok()) return by.status();
  const Result<std::string> row = uploads_.feature(file, **by);
  if (!row.ok()) return row.status();
  return embedding_of_row(**by, std::as_bytes(std::span(*row)));
}

std::shared_ptr<SimilarPhotos::Index> SimilarPhotos::index_of(const FeatureKind& features) {
  std::shared_ptr<Index>& index = indexes_[features.extractor];
  if (!index) index = std::make_shared<Index>(features);
  return index;
}

Result<SimilarPhotos::Found> SimilarPhotos::nearest(const PhotoEmbedding& query, size_t k,
                                                    std::string_view task) {
  const Result<std::shared_ptr<OnlineModel>> by = model(task);
  if (!by.ok()) return by.status();
  const FeatureKind& features = (*by)->network->features();
  if (features.extractor != query.extractor) {
    return Status(Code::kUnsupported,
                  "the embedding is of another extractor than that of version " +
                      std::to_string((*by)->version) + ", which is in force here");
  }
  std::shared_ptr<Index> index;
  {
    std::unique_lock lock(mutex_);
    index = index_of(features);
    const uint64_t question = ++index->asked;
    index->used = clock_.monotonic();
    asked_.notify_all();
    full_.wait_for(lock, options_.patience,
                   [&] { return stopping_ || index->followed >= question; });
  }
  Found found;
  const std::shared_lock lock(index->mutex);
  if (query.values.size() != index->photos.dimensions()) {
    return Status(Code::kUnsupported, "the embedding has " + std::to_string(query.values.size()) +
                                          " numbers, not " +
                                          std::to_string(index->photos.dimensions()));
  }
  std::map<Digest, std::string> paths;
  const auto is_here = [&](const Digest& photo) {
    const Result<Uploads::Photo> here = uploads_.find(photo, task);
    if (here.ok()) paths[photo] = here->known.path;
    return here.ok();
  };
  const bool exactly = !index->photos.partition() || index->photos.size() < options_.exact_below;
  const size_t some = k + kAlmostNearest;
  std::vector<Neighbour> nearest = exactly
                                       ? index->photos.nearest_exactly(query.values, some, is_here)
                                       : index->photos.nearest(query.values, some, is_here);
  for (Neighbour& n : nearest) {
    Digest photo{};
    const auto values = cached(features, KeyTable::shorten(n.photo), photo);
    if (values) n.similarity = cosine(*values, query.values);
  }
  std::ranges::sort(nearest, is_nearer);
  nearest.resize(std::min(k, nearest.size()));
  for (const Neighbour& n : nearest) found.photos.push_back({n, paths.at(n.photo)});
  found.searched = index->photos.size();
  found.cells = exactly ? 0 : index->photos.partition()->cells();
  return found;
}

size_t SimilarPhotos::indexes() {
  const std::lock_guard lock(mutex_);
  return indexes_.size();
}

// From what is kept of it in the cache, else from its features, and kept.
std::optional<Embedding> SimilarPhotos::cached(const FeatureKind& features,
                                               const KeyTable::ShortKey& key, Digest& photo) {
  const size_t dimensions = embedding_size(features.row_types);
  const Digest group = embedding_group(features.extractor);
  std::vector<std::byte> bytes;
  if (cache_.get(group, key, photo, bytes).ok() && bytes.size() == dimensions * sizeof(float)) {
    Embedding values(dimensions);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    if (normalise(values)) return values;
  }
  if (!cache_.get(features.extractor, key, photo, bytes).ok() ||
      bytes.size() != features.row_bytes()) {
    return std::nullopt;
  }
  std::optional<Embedding> values = embedding_of(features.row_types, bytes);
  if (values && is_worth_keeping(features)) {
    (void)cache_.put(group, photo, {.dtype = DType::kF32}, std::as_bytes(std::span(*values)))
        .ok();  // where there is no room, it is made again
    // One that is deleted meanwhile leaves nothing: who deletes it may have looked here before.
    if (!uploads_.find(photo).ok()) (void)cache_.remove(group, photo).ok();
  }
  return values;
}

// One that is not in the index. False: the index is as large as it may be.
bool SimilarPhotos::add(Index& index, const KeyTable::ShortKey& key) {
  const size_t bytes = EmbeddingIndex::bytes_of(index.added.size() + 1, index.photos.dimensions());
  if (bytes > options_.memory) return false;
  Digest photo{};
  const std::optional<Embedding> values = cached(index.features, key, photo);
  index.added[key] = photo;  // also one that can't be compared: it is not read again and again
  if (!values) return true;
  const size_t cell = index.photos.cell_of(*values);  // takes a while; no other thread changes it
  const std::lock_guard lock(index.mutex);
  index.photos.put(photo, *values, cell);
  return true;
}

// What an earlier run has made: rows come into their cells as they are read.
void SimilarPhotos::read_partition(Index& index) {
  if (std::exchange(index.sought_partition, true)) return;
  const Digest extractor = index.features.extractor;
  std::vector<std::byte> bytes;
  const Status s = cache_.get(partition_group(extractor), extractor, bytes).status();
  if (s.code() == Code::kNotFound) return;
  try {
    if (!s.ok()) throw Error(s.message());
    auto partition = std::make_shared<const EmbeddingPartition>(
        EmbeddingPartition::read(bytes, extractor, index.photos.dimensions()));
    const std::lock_guard lock(index.mutex);
    index.photos.divide(std::move(partition), {});
  } catch (const Error& e) {
    log::warn("the partition of similar photos is made again: {}", e.what());
  }
}

// Takes over the partition that is made, if there is one, and has one made where it is time.
void SimilarPhotos::divide(Index& index) {
  if (index.divided.exchange(false)) {
    index.dividing = {};
    const IndexDivision made = std::exchange(index.made, {});
    if (made.partition) take_over(index, made);
  }
  const size_t photos = index.photos.size();
  const EmbeddingPartition* const now = index.photos.partition();
  if (photos == 0 || photos < options_.exact_below || index.dividing.joinable() ||
      (now && photos < kOutgrown * now->photos())) {
    return;
  }
  index.dividing = std::jthread([&index](const std::stop_token& stop) {
    try {
      ThreadPool threads(std::max(1, shared_threads().threads() / 2));
      index.made = division_of(index.photos, index.mutex, threads, stop);
    } catch (const std::exception& e) {
      log::warn("similar photos are found by a look at each for now: {}", e.what());
    }
    index.divided = true;
  });
}

void SimilarPhotos::take_over(Index& index, const IndexDivision& made) {
  {
    const std::lock_guard lock(index.mutex);
    index.photos.divide(made.partition, made.cells);
  }
  const Digest extractor = index.features.extractor;
  const std::string bytes = made.partition->bytes(extractor);
  const Status s =
      cache_.put(partition_group(extractor), extractor, {}, std::as_bytes(std::span(bytes)));
  if (!s.ok()) log::warn("the partition of similar photos is not kept: {}", s.message());
}

// A piece of what has come into the cache, and all that has gone; whether there may be more.
bool SimilarPhotos::follow(Index& index) {
  std::vector<KeyTable::ShortKey> now = cache_.keys(index.features.extractor);
  const auto made = cache_.keys(embedding_group(index.features.extractor));
  now.insert(now.end(), made.begin(), made.end());
  std::ranges::sort(now);
  std::vector<KeyTable::ShortKey> come;  // rises, as `now` and `added` do; `now` has some twice
  auto it = index.added.begin();
  const auto drop = [&] {
    const std::lock_guard lock(index.mutex);
    index.photos.erase(it->second);
    it = index.added.erase(it);
  };
  for (size_t i = 0; i < now.size(); ++i) {
    if (i > 0 && now[i] == now[i - 1]) continue;
    while (it != index.added.end() && it->first < now[i]) drop();
    if (it != index.added.end() && it->first == now[i]) {
      ++it;
    } else {
      come.push_back(now[i]);
    }
  }
  while (it != index.added.end()) drop();
  size_t some = 0;
  for (const KeyTable::ShortKey& key : come) {
    if (some++ == kPiece) return true;
    if (add(index, key)) continue;
    if (!std::exchange(index.told_full, true)) {
      log::warn(
          "{} photos can be compared, and {} more can not: their index would be larger than "
          "{} bytes",
          index.added.size(), come.size() - some + 1, options_.memory);
    }
    return false;
  }
  return false;
}

void SimilarPhotos::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::erase_if(indexes_, [&](const auto& i) {
      return clock_.monotonic() - i.second->used > options_.idle && !i.second->dividing.joinable();
    });
    const auto behind = std::ranges::find_if(indexes_, [](const auto& i) {
      return i.second->followed < i.second->asked || i.second->divided;
    });
    if (behind == indexes_.end()) {
      asked_.wait_for(lock, kLook);
      continue;
    }
    const std::shared_ptr<Index> index = behind->second;
    const uint64_t question = index->asked;
    lock.unlock();
    bool more = false;
    try {
      read_partition(*index);
      more = follow(*index);
      if (!more) divide(*index);
    } catch (const std::exception& e) {
      log::warn("photos are not compared for now: {}", e.what());
    }
    lock.lock();
    if (more) continue;
    index->followed = question;
    full_.notify_all();
  }
}

}  // namespace ndtrain::ndp
