// Rows of a job's photos on the Tuner's disk, in the segment format, under the photos' digests: as
// durable as an acknowledgement promises.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/core/clock.h"
#include "framework/train/dataset.h"
#include "ndp/store/segment_store.h"
#include "tuner/ingest/kept_features.h"
#include "tuner/ingest/row_sink.h"

namespace ndtrain::tuner {
using namespace ndp;

// Thread-safe, as the store is.
class Spool final : public RowSink {
 public:
  // `group` names what the rows are (an extractor). `budget` 0: a tenth of the volume. Throws Error
  // when the directory cannot be had.
  Spool(Fs& fs, const Clock& clock, const std::string& directory, const Digest& group,
        int64_t budget);

  // From open() on it has what earlier jobs have left, too.
  void share(std::unique_ptr<JobFeatures> features) { shared_ = std::move(features); }

  Status inventory(const RowIngest::Inventory& inventory) override;
  Result<std::vector<uint64_t>> open(const Manifest& manifest) override;
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override;

  // `store`: that made it; "": this machine did.
  Status put(const Digest& photo, std::span<const std::byte> row, const std::string& store = {});
  Status flush() { return store_->flush(); }
  Status clear() { return store_->remove_group(group_); }
  bool has(const Digest& photo) const {
    return store_->contains(group_, photo) || (shared_ && shared_->has(photo));
  }
  size_t shared() const { return shared_ ? shared_->size() : 0; }  // that earlier jobs have left
  // Leaves its own rows of these photos to later jobs, until `stop`.
  Status leave(const Manifest& manifest, const std::function<bool()>& stop);
  // Fills `to`. Throws Error when the row is gone, or of another size.
  void read(const Digest& photo, std::span<std::byte> to);

 private:
  std::unique_ptr<SegmentStore> store_;
  std::unique_ptr<JobFeatures> shared_;  // null: with nobody
  Digest group_;
  const Manifest* manifest_ = nullptr;
};

// Rows of a spool to train on: in memory when they fit `memory` bytes, else read each time.
class SpoolDataset final : public Dataset {
 public:
  // The photos of `manifest` that `numbers` names and that have rows. `row_types`: what a row is
  // made of. The spool must outlive this.
  SpoolDataset(Spool& spool, const Manifest& manifest, std::span<const uint64_t> numbers,
               std::vector<TensorType> row_types, int64_t memory);
  // These photos, each with its label; rows that the spool does not have cannot be fetched.
  SpoolDataset(Spool& spool, std::vector<Digest> photos, std::vector<int64_t> labels,
               std::vector<TensorType> row_types);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override;

  bool in_memory() const { return !memory_.empty(); }
  const std::vector<Digest>& photos() const { return photos_; }
  const std::vector<int64_t>& labels() const { return labels_; }
  size_t row_bytes() const { return row_bytes_; }
  void read(int64_t row, std::span<std::byte> to);  // as fetch() does

 private:
  const std::byte* row(int64_t row);  // until the next one

  Spool& spool_;
  std::vector<Digest> photos_;
  std::vector<int64_t> labels_;
  std::vector<TensorType> row_types_;
  size_t row_bytes_ = 0;
  std::vector<std::byte> memory_, scratch_;
};

}  // namespace ndtrain::tuner
