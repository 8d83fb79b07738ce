// Rows of a job's photos on the Tuner's disk, in the segment format, under the photos' digests,
// each view of a photo in a group of its own: as durable as an acknowledgement promises.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/core/clock.h"
#include "framework/train/dataset.h"
#include "ndp/store/segment_store.h"
#include "tuner/ingest/kept_features.h"
#include "tuner/ingest/row_groups.h"
#include "tuner/ingest/row_sink.h"

namespace ndtrain::tuner {
using namespace ndp;

// Thread-safe, as the store is.
class Spool final : public RowSink {
 public:
  // `group` names what the rows are (an extractor), and `views` what they are of: of runs from 1 on
  // that many, one after the other. `budget` 0: a tenth of the volume. Throws Error when the
  // directory cannot be had.
  Spool(Fs& fs, const Clock& clock, const std::string& directory, const Digest& group,
        int64_t budget, const ViewRule& views = {});

  // From open() on it has what earlier jobs have left, too.
  void share(std::unique_ptr<JobFeatures> features) { shared_ = std::move(features); }

  Status inventory(const RowIngest::Inventory& inventory) override;
  Result<std::vector<uint64_t>> open(const Manifest& manifest) override;
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override;

  const RowGroups& groups() const { return groups_; }

  // The features of a photo or of one view of it. `store`: that made them; "": this machine did.
  Status put(const Digest& photo, std::span<const std::byte> row, const std::string& store = {},
             int64_t view = RowGroups::kAsItIs);
  Status flush() { return store_->flush(); }
  Status clear();
  bool has(const Digest& photo, int64_t view = RowGroups::kAsItIs) const {
    return store_->contains(groups_.of(view), photo) || (shared_ && shared_->has(photo, view));
  }
  bool has_row(const Digest& photo, uint32_t run) const;           // all of it
  size_t shared() const { return shared_ ? shared_->size() : 0; }  // that earlier jobs have left
  // Leaves its own rows of these photos to later jobs, until `stop`.
  Status leave(const Manifest& manifest, const std::function<bool()>& stop);
  // Fills `to`. Throws Error when the features are gone, or of another size.
  void read(const Digest& photo, std::span<std::byte> to, int64_t view = RowGroups::kAsItIs);

 private:
  std::unique_ptr<SegmentStore> store_;
  std::unique_ptr<JobFeatures> shared_;  // null: with nobody
  const RowGroups groups_;
  const Manifest* manifest_ = nullptr;
};

// Features in a spool to train on: in memory when they fit `memory` bytes, else read each time. Of
// photos to train on that have views, an epoch sees one, in turn.
class SpoolDataset final : public Dataset {
 public:
  using Epoch = std::function<int64_t()>;  // the current one

  // The photos of `manifest` that `numbers` names and that have rows; without `epoch` as they are,
  // to validate with. `row_types`: what features are made of. The spool must outlive this.
  SpoolDataset(Spool& spool, const Manifest& manifest, std::span<const uint64_t> numbers,
               std::vector<TensorType> row_types, int64_t memory, Epoch epoch = {});
  // These photos, each with its label; rows that the spool does not have cannot be fetched.
  SpoolDataset(Spool& spool, std::vector<Digest> photos, std::vector<int64_t> labels,
               std::vector<TensorType> row_types, Epoch epoch = {});

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override;

  bool in_memory() const { return !memory_.empty(); }
  const std::vector<Digest>& photos() const { return photos_; }
  const std::vector<int64_t>& labels() const { return labels_; }
  size_t row_bytes() const { return row_bytes_; }  // of one view
  int64_t views() const { return end_ - begin_; }  // of a row; at least 1
  // Of its views, counted from 0.
  void read(int64_t row, int64_t view, std::span<std::byte> to);
  bool is_in_spool(int64_t row, int64_t view) const;
  // Into the spool, not durable yet.
  Status put(int64_t row, int64_t view, std::span<const std::byte> from);

 private:
  const std::byte* features(size_t row, int64_t view);  // until the next ones

  Spool& spool_;
  const Epoch epoch_;
  const int64_t begin_, end_;  // RowGroups' views
  std::vector<Digest> photos_;
  std::vector<int64_t> labels_;
  const std::vector<TensorType> row_types_;
  size_t row_bytes_ = 0;
  std::vector<std::byte> memory_, scratch_;
};

}  // namespace ndtrain::tuner
