// Rows of a training by several Tuners: the one that leads has them all in its spool; the others
// get those of their shards, and keep them on their disks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/parallel/led_training.h"
#include "tuner/ingest/spool.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::tuner {
using namespace ndp;

// Of each row what its loss is multiplied by, and with what probability it is drawn for a place of
// its shard. {}: 1, and each row is in its place.
struct RowWeights {
  std::vector<double> loss = {}, draw = {};
};

// Which rows there are, as LeaderRows describes them to the members.
struct DescribedRows {
  std::vector<Digest> photos;
  std::vector<int64_t> labels;
  RowWeights weights;  // both of each row
};
// Untrusted. Throws Error: it is damaged, a label is below 0, or a weight is no number from 0 on.
DescribedRows described_rows(std::string_view description);

// Rows as a job trains on them: weighed and drawn, and mixed as `spec` says, each with what is in
// its shard, so that who has the rows of a shard alone trains on what others do. `epoch`: the
// current one.
std::unique_ptr<Dataset> as_trained(std::unique_ptr<Dataset> rows, const RowWeights& weights,
                                    const JobSpec& spec, const SpoolDataset::Epoch& epoch);

// The leading Tuner's.
class LeaderRows final : public SharedRows {
 public:
  // From now on it is these, or none: references.
  void use(SpoolDataset* data, const RowWeights* weights) {
    data_ = data;
    weights_ = weights;
  }
  bool in_use() const { return data_ != nullptr; }
  int64_t bytes_sent() const { return sent_; }

  std::string description() const override;
  void exchange(Communicator& ranks, ShardRange own, int shards) override;
  Dataset& dataset() override { return *data_; }

 private:
  SpoolDataset* data_ = nullptr;
  const RowWeights* weights_ = nullptr;
  int64_t sent_ = 0;
};

// A member's. What it has from earlier runs, or an earlier training on the same features, does not
// travel again.
class MemberRows final : public SharedRows, private Dataset {
 public:
  // Keeps the references. `row_types`: what a row is made of; `epoch`: the training's.
  MemberRows(Spool& spool, const JobSpec& spec, std::vector<TensorType> row_types,
             SpoolDataset::Epoch epoch);

  void take(const std::string& description) override;
  void exchange(Communicator& ranks, ShardRange own, int shards) override;
  Dataset& dataset() override { return *this; }
  int64_t bytes_received() const { return received_; }

 private:
  int64_t size() const override { return trained_ ? trained_->size() : 0; }
  int64_t labels_of_row() const override { return trained_ ? trained_->labels_of_row() : 1; }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    trained_->fetch(rows, inputs, labels);
  }
  double weight(int64_t row, int64_t label) const override { return trained_->weight(row, label); }

  Spool& spool_;
  const JobSpec& spec_;
  const std::vector<TensorType> row_types_;
  const SpoolDataset::Epoch epoch_;
  std::string description_;
  SpoolDataset* data_ = nullptr;  // in the next one
  std::unique_ptr<Dataset> trained_;
  int64_t received_ = 0;
};

}  // namespace ndtrain::tuner
