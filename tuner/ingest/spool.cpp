#include "tuner/ingest/spool.h"

#include <cstring>

#include "ndp/jobs/features.h"

namespace ndtrain::tuner {
using namespace ndp;

Spool::Spool(Fs& fs, const Clock& clock, const std::string& directory, const Digest& group,
             int64_t budget)
    : group_(group) {
  auto store = SegmentStore::open(fs, clock, directory, {.budget_bytes = budget});
  if (!store.ok()) throw Error("spool ", directory, ": ", store.status().message());
  store_ = std::move(*store);
}

Status Spool::inventory(const RowIngest::Inventory& i) {
  if (shared_) shared_->count_in(i.store, i.numerics);
  return {};
}

Result<std::vector<uint64_t>> Spool::open(const Manifest& manifest) {
  manifest_ = &manifest;
  if (shared_) shared_->begin(manifest);
  std::vector<uint64_t> durable;
  for (uint64_t n = 0; n < manifest.size(); ++n) {
    if (has(manifest.entry(n).digest)) durable.push_back(n);
  }
  return durable;
}

Status Spool::put(const Digest& photo, std::span<const std::byte> row, const std::string& store) {
  return store_->put(group_, photo, {.numerics = shared_ ? shared_->tag_of(store) : 0}, row);
}

Status Spool::leave(const Manifest& manifest, const std::function<bool()>& stop) {
  if (!shared_) return {};
  std::vector<std::byte> row;
  for (uint64_t n = 0; n < manifest.size() && !stop(); ++n) {
    const Digest& photo = manifest.entry(n).digest;
    const Result<Found> found = store_->get(group_, photo, row);
    if (!found.ok()) continue;  // an earlier job's, or nobody could deliver it
    if (Status s = shared_->leave(photo, found->meta.numerics, row); !s.ok()) return s;
  }
  return shared_->end();
}

Result<std::vector<RowIngest::BadRow>> Spool::keep(std::span<const RowIngest::Rows> rows) {
  for (const RowIngest::Rows& r : rows) {
    for (const auto& [number, row] : r.rows) {
      const Status s = put(manifest_->entry(number).digest, std::as_bytes(std::span(row)), r.store);
      if (!s.ok()) return s;
    }
  }
  if (const Status s = flush(); !s.ok()) return s;
  return std::vector<RowIngest::BadRow>();
}

void Spool::read(const Digest& photo, std::span<std::byte> to) {
  Result<Found> found = store_->get(group_, photo, to);
  if (found.status().code() == Code::kNotFound && shared_) found = shared_->get(photo, to);
  if (!found.ok() || found->bytes != to.size()) {
    throw Error("the spool has lost the row of photo ", to_hex(photo).substr(0, 12), ": ",
                found.ok() ? "another size" : found.status().message(),
                "; resume the job to have it sent again");
  }
}

SpoolDataset::SpoolDataset(Spool& spool, const Manifest& manifest,
                           std::span<const uint64_t> numbers, std::vector<TensorType> row_types,
                           int64_t memory)
    : spool_(spool), row_types_(std::move(row_types)) {
  for (const TensorType& t : row_types_) row_bytes_ += bytes_of_row(t);
  scratch_.resize(row_bytes_);
  for (const uint64_t number : numbers) {
    const Manifest::Entry& e = manifest.entry(number);
    if (!spool_.has(e.digest)) continue;
    photos_.push_back(e.digest);
    labels_.push_back(e.label);
  }
  const size_t bytes = photos_.size() * row_bytes_;
  if (static_cast<int64_t>(bytes) > memory) return;
  memory_.resize(bytes);
  for (size_t i = 0; i < photos_.size(); ++i) {
    spool_.read(photos_[i], std::span(memory_).subspan(i * row_bytes_, row_bytes_));
  }
}

SpoolDataset::SpoolDataset(Spool& spool, std::vector<Digest> photos, std::vector<int64_t> labels,
                           std::vector<TensorType> row_types)
    : spool_(spool),
      photos_(std::move(photos)),
      labels_(std::move(labels)),
      row_types_(std::move(row_types)) {
  for (const TensorType& t : row_types_) row_bytes_ += bytes_of_row(t);
  scratch_.resize(row_bytes_);
}

const std::byte* SpoolDataset::row(int64_t row) {
  const auto at = static_cast<size_t>(row);
  if (in_memory()) return memory_.data() + at * row_bytes_;
  spool_.read(photos_[at], scratch_);
  return scratch_.data();
}

void SpoolDataset::read(int64_t number, std::span<std::byte> to) {
  std::memcpy(to.data(), row(number), row_bytes_);
}

void SpoolDataset::fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
                         std::span<int64_t> labels) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::byte* from = row(rows[i]);
    for (size_t k = 0; k < inputs.size(); ++k) {
      const size_t bytes = bytes_of_row(row_types_[k]);
      std::memcpy(static_cast<std::byte*>(inputs[k].mutable_data()) + i * bytes, from, bytes);
      from += bytes;
    }
    labels[i] = labels_[static_cast<size_t>(rows[i])];
  }
}

}  // namespace ndtrain::tuner
