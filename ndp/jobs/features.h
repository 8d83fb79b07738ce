// The features that a training needs, as a table that a Dataset reads.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/train/dataset.h"
#include "ndp/engine/feature_rows.h"
#include "ndp/engine/numerics.h"
#include "ndp/jobs/feature_cache.h"
#include "ndp/jobs/photo_set.h"

namespace ndtrain::ndp {

struct ExtractionReport {
  EngineStats engine;
  int64_t cached = 0;     // photos whose features were there
  int64_t extracted = 0;  // photos that were decoded and inferred
  // Of other numerics than those here: used after a check (counted as cached too), not used, and
  // how many photos the check took.
  int64_t foreign_accepted = 0, foreign_refused = 0, sampled = 0;
};

// Bytes that may well be spent on keeping features in memory.
int64_t half_of_free_memory();

// What computes features here, and what else may have.
struct NumericsRule {
  std::string id;      // feature_numerics()
  bool exact = false;  // only features of the same numerics
};

// One row per photo: the extractor's outputs for it, one after the other, as the extractor gives
// them (f16 when it ends in a Cast). In memory when they fit `memory_limit`, else read from the
// cache each time. One thread.
class FeatureTable {
 public:
  // `row_types` are the extractor's outputs for a batch of 1.
  FeatureTable(FeatureCache& cache, Digest extractor, std::vector<TensorType> row_types,
               int64_t memory_limit);

  size_t row_bytes() const { return row_bytes_; }
  bool in_memory(size_t photos) const;

  // Gives every photo a row; those that cannot be read are left out and listed. `photos` must
  // outlive the table. The cache is written while rows are made, which waits for others that make
  // some; on return it is closed, or open to read the rows that are not in memory. Cached features
  // of other numerics are used if a few photos computed anew (the same ones every time) give the
  // same within kNumericsTolerance, else computed anew.
  ExtractionReport fill(const std::vector<Photo>& photos, Engine& engine, const Engine::Open& open,
                        const NumericsRule& numerics, Progress& progress,
                        std::vector<QuarantinedPhoto>& quarantined,
                        std::map<std::string, int64_t>& skipped);

  bool has(size_t photo) const { return present_.at(photo); }
  // Copies the row of a photo to one address per output. Throws Error when the cache lost it.
  void read(size_t photo, std::span<std::byte* const> to);
  const std::vector<TensorType>& row_types() const { return kind_.row_types; }

 private:
  // Photos whose cached features have other numerics, by tag.
  using Foreign = std::map<uint64_t, std::vector<size_t>>;
  // Which photos have no row in the cache that will do.
  std::vector<size_t> look_up(Engine& engine, const Engine::Open& open,
                              const NumericsRule& numerics, Progress& progress,
                              ExtractionReport& report);
  // The numerics of the photo's features, if they are there; reads them when rows are in memory.
  std::optional<uint64_t> take_cached(const FeatureRows& rows, size_t photo);
  void judge_foreign(const FeatureRows& rows, const Foreign& foreign, Engine& engine,
                     const Engine::Open& open, bool exact, Progress& progress,
                     ExtractionReport& report);
  void extract(const std::vector<size_t>& missing, Engine& engine, const Engine::Open& open,
               Progress& progress, std::vector<QuarantinedPhoto>& quarantined,
               std::map<std::string, int64_t>& skipped, ExtractionReport& report);
  Result<std::span<const std::byte>> row(size_t photo);  // valid until the next call
  void no_room(const Status& status) const;
  std::span<std::byte> place(size_t photo) {  // in memory
    return std::span(memory_).subspan(photo * row_bytes_, row_bytes_);
  }

  FeatureCache& cache_;
  FeatureKind kind_;
  size_t row_bytes_ = 0;
  int64_t memory_limit_;
  const std::vector<Photo>* photos_ = nullptr;
  std::vector<bool> present_;
  bool in_memory_ = false;
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

}  // namespace ndtrain::ndp
