// Rows of a training by several Tuners: the one that leads has them all in its spool; the others
// get those of their shards, and keep them on their disks.
#pragma once

#include <memory>
#include <string>

#include "framework/parallel/led_training.h"
#include "tuner/ingest/spool.h"

namespace ndtrain::tuner {
using namespace ndp;

// The leading Tuner's.
class LeaderRows final : public SharedRows {
 public:
  // From now on it is these, or none: a reference.
  void use(SpoolDataset* data) { data_ = data; }
  bool in_use() const { return data_ != nullptr; }
  int64_t bytes_sent() const { return sent_; }

  std::string description() const override;
  void exchange(Communicator& ranks, ShardRange own, int shards) override;
  Dataset& dataset() override { return *data_; }

 private:
  SpoolDataset* data_ = nullptr;
  int64_t sent_ = 0;
};

// A member's. What it has from earlier runs, or an earlier training on the same features, does not
// travel again.
class MemberRows final : public SharedRows, private Dataset {
 public:
  // Keeps a reference. `row_types`: what a row is made of.
  MemberRows(Spool& spool, std::vector<TensorType> row_types);

  void take(const std::string& description) override;
  void exchange(Communicator& ranks, ShardRange own, int shards) override;
  Dataset& dataset() override { return *this; }
  int64_t bytes_received() const { return received_; }

 private:
  int64_t size() const override { return data_ ? data_->size() : 0; }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    data_->fetch(rows, inputs, labels);
  }

  Spool& spool_;
  const std::vector<TensorType> row_types_;
  std::string description_;
  std::unique_ptr<SpoolDataset> data_;
  int64_t received_ = 0;
};

}  // namespace ndtrain::tuner
