#include "ndp/jobs/mixed_rows.h"

#include <utility>

#include "framework/core/error.h"
#include "ndp/jobs/shard_rows.h"

namespace ndtrain::ndp {
namespace {

// Whether the label of the row itself is first.
bool keeps_most(const Mix& mix) { return mix.share >= 0.5; }

std::span<float> floats_of(Tensor& t, size_t place, size_t n) {
  return t.mutable_as<float>().subspan(place * n, n);
}

}  // namespace

MixedRows::MixedRows(std::unique_ptr<Dataset> rows, const Augmentation& what,
                     const Preprocess& preprocess, uint64_t seed, std::function<int64_t()> epoch,
                     int64_t shards)
    : rows_(std::move(rows)),
      what_(what),
      preprocess_(preprocess),
      seed_(seed),
      epoch_(std::move(epoch)),
      shards_(shards) {
  if (!what.mixes()) throw Error("neither mixup nor cutmix: nothing is mixed");
  if (rows_->labels_of_row() != 1) throw Error("rows of soft labels are not mixed once more");
}

Mix MixedRows::mix_of(int64_t row) const {
  const ShardRows shard = ShardRows::with(row, shards_);
  Mix mix = drawn_mix(what_, seed_, epoch_(), row, shard.count(size()), preprocess_.img_size);
  mix.other = shard.row(mix.other);
  return mix;
}

void MixedRows::fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
                      std::span<int64_t> labels) {
  std::vector<Mix> mixes;
  std::vector<int64_t> from, own(rows.size()), other(rows.size());
  for (const int64_t row : rows) {
    mixes.push_back(mix_of(row));
    from.push_back(mixes.back().other);
  }
  others_.resize(inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (others_[k].type() != inputs[k].type()) others_[k] = Tensor(inputs[k].type());
  }
  rows_->fetch(rows, inputs, own);
  rows_->fetch(from, others_, other);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t k = 0; k < inputs.size(); ++k) mix(mixes[i], i, others_[k], inputs[k]);
    const bool first = keeps_most(mixes[i]);
    labels[2 * i] = first ? own[i] : other[i];
    labels[2 * i + 1] = first ? other[i] : own[i];
  }
}

double MixedRows::weight(int64_t row, int64_t label) const {
  const Mix mix = mix_of(row);
  const bool own = (label == 0) == keeps_most(mix);
  return own ? mix.share * rows_->weight(row, 0) : (1 - mix.share) * rows_->weight(mix.other, 0);
}

// A row of one input.
void MixedRows::mix(const Mix& mix, size_t place, const Tensor& other, Tensor& to) const {
  const TensorType& type = to.type();
  const auto values = static_cast<size_t>(type.shape.count(1, type.shape.rank()));
  if (type.dtype == DType::kF32) {
    const float* const from = other.as<float>().data() + place * values;
    const std::span<float> own = floats_of(to, place, values);
    if (mix.box) return paste(*mix.box, preprocess_, from, own.data());
    return mix_up({from, values}, mix.share, own);
  }
  if (!is_float(type.dtype) || mix.box) throw Error("rows of ", type, " are not mixed");
  const size_t bytes = size_of(type.dtype) * values;
  std::byte* const own = static_cast<std::byte*>(to.mutable_data()) + place * bytes;
  const std::byte* const from = static_cast<const std::byte*>(other.data()) + place * bytes;
  std::vector<double> a(values), b(values);
  load(own, values, type.dtype, a.data());
  load(from, values, type.dtype, b.data());
  std::vector<float> x(a.begin(), a.end()), y(b.begin(), b.end());
  mix_up(y, mix.share, x);
  a.assign(x.begin(), x.end());
  store(a.data(), values, type.dtype, own);
}

std::unique_ptr<Dataset> mixed(std::unique_ptr<Dataset> rows, const Augmentation& what,
                               const Preprocess& preprocess, uint64_t seed,
                               std::function<int64_t()> epoch, int64_t shards) {
  if (!what.mixes()) return rows;
  return std::make_unique<MixedRows>(std::move(rows), what, preprocess, seed, std::move(epoch),
                                     shards);
}

}  // namespace ndtrain::ndp
