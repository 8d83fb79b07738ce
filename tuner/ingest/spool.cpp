#include "tuner/ingest/spool.h"

#include <cstring>

#include "ndp/jobs/features.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Whose photos it has: those of validation are as they are.
uint32_t run_by(const SpoolDataset::Epoch& epoch) { return epoch ? 1 : 0; }

}  // namespace

Spool::Spool(Fs& fs, const Clock& clock, const std::string& directory, const Digest& group,
             int64_t budget, const ViewRule& views)
    : groups_(group, views) {
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
    const Manifest::Entry& e = manifest.entry(n);
    if (has_row(e.digest, e.run)) durable.push_back(n);
  }
  return durable;
}

bool Spool::has_row(const Digest& photo, uint32_t run) const {
  const auto [begin, end] = groups_.views_of(run);
  for (int64_t view = begin; view < end; ++view) {
    if (!has(photo, view)) return false;
  }
  return true;
}

Status Spool::put(const Digest& photo, std::span<const std::byte> row, const std::string& store,
                  int64_t view) {
  const RecordMeta meta{.numerics = shared_ ? shared_->tag_of(store) : 0};
  return store_->put(groups_.of(view), photo, meta, row);
}

Status Spool::clear() {
  for (const Digest& group : groups_.all()) {
    if (Status s = store_->remove_group(group); !s.ok()) return s;
  }
  return {};
}

Status Spool::leave(const Manifest& manifest, const std::function<bool()>& stop) {
  if (!shared_) return {};
  std::vector<std::byte> row;
  for (uint64_t n = 0; n < manifest.size() && !stop(); ++n) {
    const Manifest::Entry& e = manifest.entry(n);
    const auto [begin, end] = groups_.views_of(e.run);
    for (int64_t view = begin; view < end; ++view) {
      const Result<Found> found = store_->get(groups_.of(view), e.digest, row);
      if (!found.ok()) continue;  // an earlier job's, or nobody could deliver it
      Status s = shared_->leave(e.digest, view, found->meta.numerics, row);
      if (!s.ok()) return s;
    }
  }
  return shared_->end();
}

Result<std::vector<RowIngest::BadRow>> Spool::keep(std::span<const RowIngest::Rows> rows) {
  for (const RowIngest::Rows& r : rows) {
    const auto [begin, end] = groups_.views_of(r.run);
    for (const auto& [number, row] : r.rows) {
      const size_t size = row.size() / static_cast<size_t>(end - begin);
      std::span<const std::byte> left = std::as_bytes(std::span(row));
      for (int64_t view = begin; view < end; ++view, left = left.subspan(size)) {
        const Digest& photo = manifest_->entry(number).digest;
        if (Status s = put(photo, left.first(size), r.store, view); !s.ok()) return s;
      }
    }
  }
  if (const Status s = flush(); !s.ok()) return s;
  return std::vector<RowIngest::BadRow>();
}

void Spool::read(const Digest& photo, std::span<std::byte> to, int64_t view) {
  Result<Found> found = store_->get(groups_.of(view), photo, to);
  if (found.status().code() == Code::kNotFound && shared_) found = shared_->get(photo, view, to);
  if (!found.ok() || found->bytes != to.size()) {
    throw Error("the spool has lost the row of photo ", to_hex(photo).substr(0, 12), ": ",
                found.ok() ? "another size" : found.status().message(),
                "; resume the job to have it sent again");
  }
}

SpoolDataset::SpoolDataset(Spool& spool, std::vector<Digest> photos, std::vector<int64_t> labels,
                           std::vector<TensorType> row_types, Epoch epoch)
    : spool_(spool),
      epoch_(std::move(epoch)),
      begin_(spool.groups().views_of(run_by(epoch_)).first),
      end_(spool.groups().views_of(run_by(epoch_)).second),
      photos_(std::move(photos)),
      labels_(std::move(labels)),
      row_types_(std::move(row_types)) {
  for (const TensorType& t : row_types_) row_bytes_ += bytes_of_row(t);
  scratch_.resize(row_bytes_);
}

SpoolDataset::SpoolDataset(Spool& spool, const Manifest& manifest,
                           std::span<const uint64_t> numbers, std::vector<TensorType> row_types,
                           int64_t memory, Epoch epoch)
    : SpoolDataset(spool, {}, {}, std::move(row_types), std::move(epoch)) {
  for (const uint64_t number : numbers) {
    const Manifest::Entry& e = manifest.entry(number);
    if (!spool_.has_row(e.digest, run_by(epoch_))) continue;
    photos_.push_back(e.digest);
    labels_.push_back(e.label);
  }
  const size_t bytes = photos_.size() * static_cast<size_t>(views()) * row_bytes_;
  if (static_cast<int64_t>(bytes) > memory) return;
  std::vector<std::byte> all(bytes);
  std::span<std::byte> to = all;
  for (const Digest& photo : photos_) {
    for (int64_t view = begin_; view < end_; ++view, to = to.subspan(row_bytes_)) {
      spool_.read(photo, to.first(row_bytes_), view);
    }
  }
  memory_ = std::move(all);
}

const std::byte* SpoolDataset::features(size_t row, int64_t view) {
  if (in_memory()) {
    const size_t at = row * static_cast<size_t>(views()) + static_cast<size_t>(view);
    return memory_.data() + at * row_bytes_;
  }
  spool_.read(photos_[row], scratch_, begin_ + view);
  return scratch_.data();
}

void SpoolDataset::read(int64_t row, int64_t view, std::span<std::byte> to) {
  std::memcpy(to.data(), features(static_cast<size_t>(row), view), row_bytes_);
}

bool SpoolDataset::is_in_spool(int64_t row, int64_t view) const {
  return spool_.has(photos_[static_cast<size_t>(row)], begin_ + view);
}

Status SpoolDataset::put(int64_t row, int64_t view, std::span<const std::byte> from) {
  return spool_.put(photos_[static_cast<size_t>(row)], from, {}, begin_ + view);
}

void SpoolDataset::fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
                         std::span<int64_t> labels) {
  const int64_t view = epoch_ ? epoch_() % views() : 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i]);
    const std::byte* from = features(row, view);
    for (size_t k = 0; k < inputs.size(); ++k) {
      const size_t bytes = bytes_of_row(row_types_[k]);
      std::memcpy(static_cast<std::byte*>(inputs[k].mutable_data()) + i * bytes, from, bytes);
      from += bytes;
    }
    labels[i] = labels_[row];
  }
}

}  // namespace ndtrain::tuner
