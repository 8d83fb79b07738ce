#include "tuner/group/group_rows.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "framework/core/coding.h"
#include "framework/parallel/hand_out_rows.h"
#include "ndp/jobs/mixed_rows.h"
#include "ndp/jobs/sampling.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// A row in a description: the photo's digest, its label, and what RowWeights have of it.
constexpr size_t kEntry = sizeof(Digest) + sizeof(int64_t) + 2 * sizeof(double);

double weight_at(const std::byte* at, size_t row) {
  const auto weight = std::bit_cast<double>(load_le<uint64_t>(at));
  if (weight >= 0 && std::isfinite(weight)) return weight;
  throw Error("row ", row, " of the Tuner has a weight of ", weight);
}

}  // namespace

DescribedRows described_rows(std::string_view description) {
  if (description.size() % kEntry != 0) throw Error("the Tuner's list of rows is damaged");
  const size_t n = description.size() / kEntry;
  DescribedRows rows{.photos = std::vector<Digest>(n)};
  const auto* from = reinterpret_cast<const std::byte*>(description.data());
  for (size_t i = 0; i < n; ++i, from += kEntry) {
    std::memcpy(rows.photos[i].data(), from, sizeof(Digest));
    const std::byte* at = from + sizeof(Digest);
    rows.labels.push_back(load_le<int64_t>(at));
    if (rows.labels[i] < 0) throw Error("row ", i, " of the Tuner has label ", rows.labels[i]);
    at += sizeof(int64_t);
    rows.weights.loss.push_back(weight_at(at, i));
    rows.weights.draw.push_back(weight_at(at + sizeof(double), i));
  }
  return rows;
}

std::unique_ptr<Dataset> as_trained(std::unique_ptr<Dataset> rows, const RowWeights& weights,
                                    const JobSpec& spec, const SpoolDataset::Epoch& epoch) {
  const int64_t shards = spec.trainer.shards;
  if (spec.sampling.weighs()) {
    rows = std::make_unique<SampledRows>(std::move(rows), weights.loss, weights.draw, spec.seed,
                                         epoch, shards);
  }
  return mixed(std::move(rows), spec.augmentation, /*of features alone*/ {}, spec.seed, epoch,
               shards);
}

std::string LeaderRows::description() const {
  if (!data_) return "";
  std::string text(data_->photos().size() * kEntry, '\0');
  auto* to = reinterpret_cast<std::byte*>(text.data());
  for (size_t i = 0; i < data_->photos().size(); ++i, to += kEntry) {
    std::memcpy(to, data_->photos()[i].data(), sizeof(Digest));
    std::byte* at = to + sizeof(Digest);
    store_le(at, data_->labels()[i]);
    at += sizeof(int64_t);
    store_le(at, std::bit_cast<uint64_t>(weights_->loss.empty() ? 1.0 : weights_->loss[i]));
    store_le(at + sizeof(double),
             std::bit_cast<uint64_t>(weights_->draw.empty() ? 0.0 : weights_->draw[i]));
  }
  return text;
}

// Each view of a row travels by itself: a row's first one, and so on.
void LeaderRows::exchange(Communicator& ranks, ShardRange /*own*/, int /*shards*/) {
  const int64_t views = data_->views();
  sent_ += hand_out_rows(
      ranks, data_->size() * views, data_->row_bytes(),
      [&](int64_t item, std::span<std::byte> to) { data_->read(item / views, item % views, to); });
}

MemberRows::MemberRows(Spool& spool, const JobSpec& spec, std::vector<TensorType> row_types,
                       SpoolDataset::Epoch epoch)
    : spool_(spool), spec_(spec), row_types_(std::move(row_types)), epoch_(std::move(epoch)) {}

void MemberRows::take(const std::string& description) {
  if (description == description_) return;
  DescribedRows rows = described_rows(description);
  if (!spec_.sampling.draws()) rows.weights.draw.clear();
  auto data = std::make_unique<SpoolDataset>(spool_, std::move(rows.photos), std::move(rows.labels),
                                             row_types_, epoch_);
  data_ = data.get();
  trained_ = as_trained(std::move(data), rows.weights, spec_, epoch_);
  description_ = description;
}

void MemberRows::exchange(Communicator& ranks, ShardRange own, int shards) {
  const int64_t views = data_->views();
  // With a controller any rank may do any row of a step (varying_order.h).
  const bool any = spec_.slow_link.controller;
  std::vector<int64_t> lacking;
  for (int64_t row = 0; row < data_->size(); ++row) {
    const int64_t shard = row % shards;
    if (!any && (shard < own.begin || shard >= own.end)) continue;
    for (int64_t view = 0; view < views; ++view) {
      if (!data_->is_in_spool(row, view)) lacking.push_back(row * views + view);
    }
  }
  const auto demand = [](const Status& s) {
    if (s.ok()) return;
    throw Error("the rows of its shards cannot be kept: ", s.message(),
                "; --disk of ndtrain tuner join says how much they may take");
  };
  receive_rows(ranks, lacking, data_->row_bytes(),
               [&](int64_t item, std::span<const std::byte> from) {
                 demand(data_->put(item / views, item % views, from));
               });
  demand(spool_.flush());
  received_ += std::ssize(lacking) * static_cast<int64_t>(data_->row_bytes());
}

}  // namespace ndtrain::tuner
