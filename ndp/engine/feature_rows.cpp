#include "ndp/engine/feature_rows.h"

#include <cstring>
#include <utility>

namespace ndtrain::ndp {

size_t bytes_of_row(const TensorType& t) {
  return static_cast<size_t>(t.shape.count(1, t.shape.rank())) * size_of(t.dtype);
}

std::vector<TensorType> row_types_of(const Model& extractor) {
  const Graph g = bind(extractor, 1);
  std::vector<TensorType> types;
  for (const ValueId v : g.outputs()) types.push_back(g.type(v));
  return types;
}

size_t FeatureKind::row_bytes() const {
  size_t bytes = 0;
  for (const TensorType& t : row_types) bytes += bytes_of_row(t);
  return bytes;
}

FeatureRows::FeatureRows(SegmentStore* store, FeatureKind kind)
    : store_(store), kind_(std::move(kind)), row_bytes_(kind_.row_bytes()) {}

std::optional<uint64_t> FeatureRows::cached(const Digest& photo, std::span<std::byte> to) const {
  if (!store_) return std::nullopt;
  const Result<Found> found =
      to.empty() ? store_->find(kind_.extractor, photo) : store_->get(kind_.extractor, photo, to);
  if (!found.ok() || found->bytes != row_bytes_) return std::nullopt;
  return found->meta.numerics;
}

Status FeatureRows::keep(const Digest& photo, std::span<const std::byte> row) {
  if (!store_) return {};
  return store_->put(kind_.extractor, photo,
                     {.dtype = kind_.row_types[0].dtype, .numerics = kind_.numerics}, row);
}

void FeatureRows::copy_row(const std::vector<Tensor>& outputs, size_t row,
                           std::span<std::byte> to) const {
  for (size_t k = 0; k < outputs.size(); ++k) {
    const size_t bytes = bytes_of_row(kind_.row_types[k]);
    std::memcpy(to.data(), static_cast<const std::byte*>(outputs[k].data()) + row * bytes, bytes);
    to = to.subspan(bytes);
  }
}

EngineStats FeatureRows::extract(Engine& engine, std::span<const size_t> items,
                                 const Photos& photos) {
  std::vector<std::byte> row(row_bytes_);
  const auto batch_done = [&](const Engine::Batch& batch) {
    for (size_t r = 0; r < batch.items.size(); ++r) {
      const size_t item = batch.items[r];
      copy_row(batch.outputs, r, row);
      if (!photos.take(item, row) || full_) continue;
      const Status s = keep(photos.digest(item), row);
      full_ = !s.ok();
      if (full_) photos.full(s);
    }
    for (const BadPhoto& b : batch.bad) photos.bad(b);
    return photos.go_on(batch.items.size() + batch.bad.size());
  };
  return engine.run(items, photos.name, photos.open, batch_done, photos.crops);
}

}  // namespace ndtrain::ndp
