// Which photos of a store are like another: nearest by the features that the extractor of a task's
// version in force makes, as the cache has them. An index in memory is filled when it is first
// asked for, follows the cache from then on, and goes when nobody has asked for a while. Where
// features are larger than what is made of them, that is kept in the cache beside them. An index of
// many photos is divided by a partition, which is made in the background and kept in the cache.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/clock.h"
#include "ndp/pipestore/uploads.h"
#include "ndp/similarity/embedding_index.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

struct IndexDivision;

// What can be compared with embeddings of the same extractor alone.
struct PhotoEmbedding {
  Digest extractor{};
  uint64_t version = 0;  // in force, by which it was asked for
  Embedding values;
};

// The group of the cache in which embeddings of an extractor's features are.
Digest embedding_group(const Digest& extractor);
// And that in which their partition is, under the extractor's digest.
Digest partition_group(const Digest& extractor);

class SimilarPhotos {
 public:
  struct Options {
    size_t memory = size_t{2} << 30;           // bytes of an index; what is beyond is not found
    size_t exact_below = 100'000;              // photos, of which each is looked at
    std::chrono::milliseconds patience{2000};  // of a question, for an index that is not full yet
    std::chrono::nanoseconds idle = std::chrono::minutes(10);  // after which an index goes
  };
  struct Found {
    struct Photo {
      Neighbour neighbour;
      std::string path;
    };
    std::vector<Photo> photos;  // nearest first; none that is deleted or in the trash
    size_t searched = 0;        // photos that the index had by then
    size_t cells = 0;           // into which it was divided; 0: each photo was looked at
  };

  // Keeps references.
  SimilarPhotos(SegmentStore& cache, Uploads& uploads, Clock& clock, const Options& options);
  SimilarPhotos(SegmentStore& cache, Uploads& uploads, Clock& clock)
      : SimilarPhotos(cache, uploads, clock, Options()) {}
  ~SimilarPhotos();

  // kUnsupported: no version of the task is in force here, or one that is one whole model, which
  // has no features. Of a photo that is here, else kNotFound.
  Result<PhotoEmbedding> embedding(const Digest& photo, std::string_view task);
  // Of a file; kCorrupt and others: it cannot be read.
  Result<PhotoEmbedding> embedding(const std::string& file, std::string_view task);

  // The k photos nearest to `query`. kUnsupported also when the task's version in force has another
  // extractor.
  Result<Found> nearest(const PhotoEmbedding& query, size_t k, std::string_view task);

  size_t indexes();  // in memory
  Uploads& uploads() { return uploads_; }

 private:
  struct Index;

  Result<std::shared_ptr<OnlineModel>> model(std::string_view task) const;
  static Result<PhotoEmbedding> embedding_of_row(const OnlineModel& model,
                                                 std::span<const std::byte> row);
  std::shared_ptr<Index> index_of(const FeatureKind& features);
  std::optional<Embedding> cached(const FeatureKind& features, const KeyTable::ShortKey& key,
                                  Digest& photo);
  bool follow(Index& index);
  void read_partition(Index& index);
  void divide(Index& index);
  void take_over(Index& index, const IndexDivision& made);
  bool add(Index& index, const KeyTable::ShortKey& key);
  void run();

  SegmentStore& cache_;
  Uploads& uploads_;
  Clock& clock_;
  const Options options_;
  std::mutex mutex_;  // of all below
  std::condition_variable asked_, full_;
  std::map<Digest, std::shared_ptr<Index>> indexes_;  // by extractor
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace ndtrain::ndp
