#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/train/dataset.h"
#include "ndp/engine/engine.h"
#include "ndp/jobs/photo_set.h"

namespace ndtrain::ndp {

// Photos as the network's input, for training without a frozen part: u8 crops of the centre are
// kept in memory while they fit `memory_limit`, the others are decoded each time they are asked
// for.
class PhotoRows {
 public:
  PhotoRows(const Preprocess& preprocess, int64_t memory_limit)
      : preprocess_(preprocess), free_(memory_limit) {}

  // Decodes every photo once; those that cannot be read are left out and listed. Crops are kept of
  // those that `keeps` wants, if given. `photos` and `open` must outlive this.
  void fill(const std::vector<Photo>& photos, Engine::Open open, Progress& progress,
            std::vector<QuarantinedPhoto>& quarantined, std::map<std::string, int64_t>& skipped,
            const std::function<bool(size_t photo)>& keeps = {});

  bool has(size_t photo) const { return present_.at(photo); }
  // These are thread-safe, and throw Error when the file has changed since.
  void read(size_t photo, float* to) const;
  Image crop_of(size_t photo) const;
  Image whole(size_t photo) const;  // decoded at its full size

  const Preprocess& preprocess() const { return preprocess_; }
  size_t values() const { return preprocess_.values(); }

 private:
  std::vector<uint8_t> kept(size_t photos, const std::function<bool(size_t)>& keeps) const;
  Image readable(size_t photo, Result<Image> image) const;
  Result<Image> decode_crop(size_t photo) const;

  Preprocess preprocess_;
  int64_t free_;
  const std::vector<Photo>* photos_ = nullptr;
  Engine::Open open_;
  std::vector<uint8_t> present_;
  std::vector<Image> crops_;  // without pixels: not kept
};

class PhotoDataset final : public Dataset {
 public:
  // Of rows.values() values; thread-safe.
  using Read = std::function<void(size_t photo, float* to)>;

  // Rows are what `read` says of the photos, if given, else of their centres.
  PhotoDataset(const PhotoRows& rows, std::vector<size_t> photos, std::vector<int64_t> labels,
               Read read = {});

  int64_t size() const override { return static_cast<int64_t>(photos_.size()); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override;

 private:
  size_t values_;
  std::vector<size_t> photos_;
  std::vector<int64_t> labels_;
  Read read_;
};

}  // namespace ndtrain::ndp
