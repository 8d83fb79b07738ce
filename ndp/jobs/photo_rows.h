#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/train/dataset.h"
#include "ndp/engine/engine.h"
#include "ndp/jobs/photo_set.h"

namespace ndtrain::ndp {

// Photos as the network's input, for training without a frozen part: u8 crops are kept in memory
// while they fit `memory_limit`, the others are decoded each time they are asked for.
class PhotoRows {
 public:
  PhotoRows(const Preprocess& preprocess, int64_t memory_limit)
      : preprocess_(preprocess), free_(memory_limit) {}

  // Decodes every photo once; those that cannot be read are left out and listed. `photos` and
  // `open` must outlive this.
  void fill(const std::vector<Photo>& photos, Engine::Open open, Progress& progress,
            std::vector<QuarantinedPhoto>& quarantined, std::map<std::string, int64_t>& skipped);

  bool has(size_t photo) const { return present_.at(photo); }
  void read(size_t photo,
            float* to) const;  // thread-safe; throws Error when the file has changed since
  size_t values() const { return preprocess_.values(); }

 private:
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
  PhotoDataset(const PhotoRows& rows, std::vector<size_t> photos, std::vector<int64_t> labels)
      : rows_(rows), photos_(std::move(photos)), labels_(std::move(labels)) {}

  int64_t size() const override { return static_cast<int64_t>(photos_.size()); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override;

 private:
  const PhotoRows& rows_;
  std::vector<size_t> photos_;
  std::vector<int64_t> labels_;
};

}  // namespace ndtrain::ndp
