// Features of photos by one extractor: from the cache where they are, else from the engine, then
// kept. A row is the extractor's outputs for one photo, one after the other.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/graph/model.h"
#include "ndp/engine/engine.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

// Of one row of a tensor with this type for a batch of 1.
size_t bytes_of_row(const TensorType& t);

// The outputs of an extractor for a batch of 1.
std::vector<TensorType> row_types_of(const Model& extractor);

// Which features, and what computes them here.
struct FeatureKind {
  Digest extractor{};
  std::vector<TensorType> row_types;  // its outputs for a batch of 1
  uint64_t numerics = 0;              // tag

  size_t row_bytes() const;
};

class FeatureRows {
 public:
  // `store` must outlive this; null: there is no cache.
  FeatureRows(SegmentStore* store, FeatureKind kind);

  size_t row_bytes() const { return row_bytes_; }

  // The numerics of the features of this photo, which may be others than those here, and the row in
  // `to` where it has room. Nullopt: there are none.
  std::optional<uint64_t> cached(const Digest& photo, std::span<std::byte> to) const;
  // For the next time; durable after the store's next flush.
  Status keep(const Digest& photo, std::span<const std::byte> row);

  // What extract() is given of photos, and does with their rows, on the caller's thread.
  struct Photos {
    std::function<const Digest&(size_t item)> digest;
    std::function<std::string(size_t item)> name;
    Engine::Open open;
    const Engine::Crops* crops = nullptr;
    // False: it is not to be kept.
    std::function<bool(size_t item, std::span<const std::byte> row)> take;
    std::function<void(const BadPhoto&)> bad;
    // The cache takes no more; said once.
    std::function<void(const Status&)> full;
    // After so many photos, good and bad; false stops.
    std::function<bool(size_t photos)> go_on;
  };
  // Computes the rows of `items` and keeps them.
  EngineStats extract(Engine& engine, std::span<const size_t> items, const Photos& photos);

  // One row of the outputs of a batch.
  void copy_row(const std::vector<Tensor>& outputs, size_t row, std::span<std::byte> to) const;

 private:
  SegmentStore* store_;
  const FeatureKind kind_;
  const size_t row_bytes_;
  bool full_ = false;
};

}  // namespace ndtrain::ndp
