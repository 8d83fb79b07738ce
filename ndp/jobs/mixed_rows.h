#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "framework/train/dataset.h"
#include "ndp/photos/mixing.h"

namespace ndtrain::ndp {

// Rows to train on, each mixed with another of its shard (ShardRows), as soft labels of two
// classes: the one with the larger share is first. What a row is mixed with is a function of the
// seed, the epoch and its place, so that batches and ranks do not change it. Inputs are pictures,
// or features, which are mixed in f32 and rounded as they were: manifold mixup (Verma et al.,
// arXiv:1806.05236) at one layer, the cut.
class MixedRows final : public Dataset {
 public:
  // `what` mixes; CutMix is of rows that are inputs of `preprocess`. `epoch`: the current one.
  MixedRows(std::unique_ptr<Dataset> rows, const Augmentation& what, const Preprocess& preprocess,
            uint64_t seed, std::function<int64_t()> epoch, int64_t shards = 1);

  int64_t size() const override { return rows_->size(); }
  int64_t labels_of_row() const override { return 2; }
  // Each row, and the one that it is mixed with, is fetched.
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override;
  // Of the row that the label is of, times its share.
  double weight(int64_t row, int64_t label) const override;

  Mix mix_of(int64_t row) const;  // in the current epoch

 private:
  void mix(const Mix& mix, size_t place, const Tensor& other, Tensor& to) const;

  std::unique_ptr<Dataset> rows_;
  Augmentation what_;
  Preprocess preprocess_;
  uint64_t seed_;
  std::function<int64_t()> epoch_;
  int64_t shards_;
  std::vector<Tensor> others_;  // inputs of the rows that are mixed in
};

// `rows`, mixed where `what` says so.
std::unique_ptr<Dataset> mixed(std::unique_ptr<Dataset> rows, const Augmentation& what,
                               const Preprocess& preprocess, uint64_t seed,
                               std::function<int64_t()> epoch, int64_t shards = 1);

}  // namespace ndtrain::ndp
