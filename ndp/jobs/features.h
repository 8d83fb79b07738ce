// Features of photos: from the cache where they are, else from the engine, then kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/train/dataset.h"
#include "ndp/engine/engine.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/store/segment_store.h"

namespace ndtrain {

struct ExtractionReport {
  EngineStats engine;
  int64_t cached = 0;     // photos whose features were there
  int64_t extracted = 0;  // photos that were decoded and inferred
};

// One row per photo: the extractor's outputs for it, one after the other, as the extractor gives
// them (f16 when it ends in a Cast). In memory when they fit `memory_limit`, else read from the
// cache each time. One thread.
class FeatureTable {
 public:
  // `row_types` are the extractor's outputs for a batch of 1.
  FeatureTable(SegmentStore& cache, Digest extractor, std::vector<TensorType> row_types,
               int64_t memory_limit);

  size_t row_bytes() const { return row_bytes_; }
  bool in_memory(size_t photos) const;

  // Gives every photo a row; those that cannot be read are left out and listed. `photos` must
  // outlive the table. `numerics` says what computes features here.
  ExtractionReport fill(const std::vector<Photo>& photos, Engine& engine, const Engine::Open& open,
                        const std::string& numerics, Progress& progress,
                        std::vector<QuarantinedPhoto>& quarantined,
                        std::map<std::string, int64_t>& skipped);

  bool has(size_t photo) const { return present_.at(photo); }
  // Copies the row of a photo to one address per output. Throws Error when the cache lost it.
  void read(size_t photo, std::span<std::byte* const> to);
  const std::vector<TensorType>& row_types() const { return row_types_; }

 private:
  std::vector<size_t> take_cached(Progress& progress);
  void store(size_t photo, const std::vector<Tensor>& outputs, size_t row, uint64_t numerics);

  SegmentStore& cache_;
  Digest extractor_;
  std::vector<TensorType> row_types_;
  size_t row_bytes_ = 0;
  int64_t memory_limit_;
  const std::vector<Photo>* photos_ = nullptr;
  std::vector<bool> present_;
  bool in_memory_ = false, cache_full_ = false;
  std::vector<std::byte> memory_;   // rows, when in memory
  std::vector<std::byte> scratch_;  // one row
};

// Some photos of a table, with their labels.
class FeatureDataset final : public Dataset {
 public:
  FeatureDataset(FeatureTable& table, std::vector<size_t> photos, std::vector<int64_t> labels)
      : table_(table), photos_(std::move(photos)), labels_(std::move(labels)) {}

  int64_t size() const override { return static_cast<int64_t>(photos_.size()); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override;

 private:
  FeatureTable& table_;
  std::vector<size_t> photos_;
  std::vector<int64_t> labels_;
};

}  // namespace ndtrain
