// Rows of a training that rank 0 leads, and a job that drives it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/parallel/hand_out_rows.h"
#include "framework/parallel/led_training.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain::testing {

inline constexpr size_t kRowBytes = kSide * kSide * sizeof(float) + sizeof(int64_t);

// Rows of stripes, as bytes: pixels, then the label.
inline std::vector<std::byte> row_of(Dataset& data, int64_t row) {
  Tensor x({DType::kF32, {1, 1, kSide, kSide}});
  int64_t label = 0;
  data.fetch(std::span(&row, 1), std::span(&x, 1), std::span(&label, 1));
  std::vector<std::byte> bytes(kRowBytes);
  std::memcpy(bytes.data(), x.data(), kRowBytes - sizeof label);
  std::memcpy(bytes.data() + kRowBytes - sizeof label, &label, sizeof label);
  return bytes;
}

class LeaderRows final : public SharedRows {
 public:
  void use(int64_t rows, uint64_t seed) {
    data_ = std::make_unique<TensorDataset>(stripes(rows, seed));
    description_ = std::to_string(rows) + " of " + std::to_string(seed);
  }
  std::string description() const override { return description_; }
  void exchange(Communicator& ranks, ShardRange, int) override {
    hand_out_rows(ranks, data_->size(), kRowBytes, [this](int64_t row, std::span<std::byte> to) {
      const std::vector<std::byte> bytes = row_of(*data_, row);
      std::memcpy(to.data(), bytes.data(), bytes.size());
    });
  }
  Dataset& dataset() override { return *data_; }

 private:
  std::unique_ptr<TensorDataset> data_;
  std::string description_;
};

// Has only what it was handed.
class FollowerRows final : public SharedRows, private Dataset {
 public:
  void take(const std::string& description) override {
    if (description == description_) return;
    description_ = description;
    rows_.clear();
  }
  void exchange(Communicator& ranks, ShardRange own, int shards) override {
    std::vector<int64_t> lacking;
    for (int64_t row = 0; row < size(); ++row) {
      const int64_t shard = row % shards;
      if (shard >= own.begin && shard < own.end && !rows_.contains(row)) lacking.push_back(row);
    }
    receive_rows(ranks, lacking, kRowBytes, [this](int64_t row, std::span<const std::byte> from) {
      rows_[row].assign(from.begin(), from.end());
    });
    handed += std::ssize(lacking);
  }
  Dataset& dataset() override { return *this; }

  int64_t handed = 0;

 private:
  int64_t size() const override { return std::stoll(description_); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    constexpr size_t kPixels = kRowBytes - sizeof(int64_t);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<std::byte>& row = rows_.at(rows[i]);
      std::memcpy(static_cast<std::byte*>(inputs[0].mutable_data()) + i * kPixels, row.data(),
                  kPixels);
      std::memcpy(&labels[i], row.data() + kPixels, sizeof(int64_t));
    }
  }

  std::string description_;
  std::map<int64_t, std::vector<std::byte>> rows_;
};

// What a job does to a training: `rows` have the data that `use` makes ready.
inline Bytes drive(Training& training, LeaderRows& rows, const std::function<void()>& use) {
  Bytes bytes;
  const auto epoch = [&] {
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(rows.dataset(), result, {}));
    bytes.push_back(bytes_of(training.checkpoint()) + " " + std::to_string(result.loss));
  };
  rows.use(70, 3);
  use();
  training.scale_lr(0.75);
  epoch();
  const Checkpoint best = training.checkpoint();
  epoch();
  rows.use(50, 9);
  use();
  training.reset_optimizer();
  epoch();
  training.restore(best);
  epoch();
  return bytes;
}

}  // namespace ndtrain::testing
