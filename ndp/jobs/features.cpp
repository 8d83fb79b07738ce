#include "ndp/jobs/features.h"

#include <fmt/format.h>

#include <cstring>

#include "framework/core/log.h"

namespace ndtrain {
namespace {

constexpr int64_t kFlushBytes = int64_t{64} << 20;

size_t bytes_of_row(const TensorType& t) {
  return static_cast<size_t>(t.shape.count(1, t.shape.rank())) * size_of(t.dtype);
}

}  // namespace

FeatureTable::FeatureTable(SegmentStore& cache, Digest extractor, std::vector<TensorType> row_types,
                           int64_t memory_limit)
    : cache_(cache),
      extractor_(extractor),
      row_types_(std::move(row_types)),
      memory_limit_(memory_limit) {
  for (const TensorType& t : row_types_) row_bytes_ += bytes_of_row(t);
  scratch_.resize(row_bytes_);
}

bool FeatureTable::in_memory(size_t photos) const {
  return static_cast<int64_t>(photos * row_bytes_) <= memory_limit_;
}

// Returns the photos that must be extracted.
std::vector<size_t> FeatureTable::take_cached(Progress& progress) {
  std::vector<size_t> missing;
  for (size_t i = 0; i < photos_->size(); ++i) {
    const Digest& key = (*photos_)[i].digest;
    if (!in_memory_) {
      present_[i] = cache_.contains(extractor_, key);
    } else {
      const auto to = std::span(memory_).subspan(i * row_bytes_, row_bytes_);
      const Result<Found> found = cache_.get(extractor_, key, to);
      present_[i] = found.ok() && found->bytes == row_bytes_;
      if (i % 64 == 0) progress.update(static_cast<int64_t>(i));
    }
    if (!present_[i]) missing.push_back(i);
  }
  return missing;
}

void FeatureTable::store(size_t photo, const std::vector<Tensor>& outputs, size_t row,
                         uint64_t numerics) {
  std::byte* to = in_memory_ ? memory_.data() + photo * row_bytes_ : scratch_.data();
  size_t at = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const size_t bytes = bytes_of_row(row_types_[k]);
    std::memcpy(to + at, static_cast<const std::byte*>(outputs[k].data()) + row * bytes, bytes);
    at += bytes;
  }
  present_[photo] = true;
  if (cache_full_) return;
  const RecordMeta meta{.dtype = row_types_[0].dtype, .numerics = numerics};
  const Status s = cache_.put(extractor_, (*photos_)[photo].digest, meta, {to, row_bytes_});
  if (s.ok()) return;
  if (!in_memory_) {
    throw Error(
        "the features do not fit the cache: ", s.message(),
        "; give --cache on a larger volume, a smaller cut, --cache-dtype f16 or --head linear");
  }
  cache_full_ = true;
  log::warn("features are not kept for the next time: {}", s.message());
}

ExtractionReport FeatureTable::fill(const std::vector<Photo>& photos, Engine& engine,
                                    const Engine::Open& open, const std::string& numerics,
                                    Progress& progress, std::vector<QuarantinedPhoto>& quarantined,
                                    std::map<std::string, int64_t>& skipped) {
  photos_ = &photos;
  present_.assign(photos.size(), false);
  in_memory_ = in_memory(photos.size());
  if (in_memory_) memory_.resize(photos.size() * row_bytes_);
  progress.begin("reading cached features", static_cast<int64_t>(photos.size()), "photos");
  const std::vector<size_t> missing = take_cached(progress);
  progress.update(static_cast<int64_t>(photos.size()));
  progress.end();

  ExtractionReport report;
  report.cached = static_cast<int64_t>(photos.size() - missing.size());
  if (missing.empty()) return report;
  const uint64_t tag = numerics_tag(numerics);
  int64_t done = 0, unflushed = 0;
  progress.begin("extracting features", static_cast<int64_t>(missing.size()), "photos");
  auto name = [&](size_t i) { return photos[i].path; };
  report.engine = engine.run(missing, name, open, [&](const Engine::Batch& batch) {
    for (size_t row = 0; row < batch.items.size(); ++row)
      store(batch.items[row], batch.outputs, row, tag);
    for (const BadPhoto& bad : batch.bad) {
      const std::string& path = photos[bad.item].path;
      if (bad.reason.code() == Code::kUnsupported) {
        ++skipped[extension_of(path)];
      } else {
        quarantined.push_back({path, bad.reason.message()});
      }
    }
    done += static_cast<int64_t>(batch.items.size() + batch.bad.size());
    unflushed += static_cast<int64_t>(batch.items.size() * row_bytes_);
    if (unflushed >= kFlushBytes) {
      cache_.flush().or_throw();
      unflushed = 0;
    }
    progress.update(done);
    return !progress.interrupted();
  });
  cache_.flush().or_throw();
  progress.end();
  report.extracted = report.engine.photos;
  return report;
}

void FeatureTable::read(size_t photo, std::span<std::byte* const> to) {
  const std::byte* from = memory_.data() + photo * row_bytes_;
  if (!in_memory_) {
    const Result<Found> found = cache_.get(extractor_, (*photos_)[photo].digest, scratch_);
    if (!found.ok()) {
      throw Error("features of ", (*photos_)[photo].path,
                  " are gone from the cache: ", found.status().message(),
                  "; run again to extract them anew");
    }
    from = scratch_.data();
  }
  for (size_t k = 0; k < row_types_.size(); ++k) {
    const size_t bytes = bytes_of_row(row_types_[k]);
    std::memcpy(to[k], from, bytes);
    from += bytes;
  }
}

void FeatureDataset::fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
                           std::span<int64_t> labels) {
  std::vector<std::byte*> to(inputs.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      to[k] = static_cast<std::byte*>(inputs[k].mutable_data()) +
              i * bytes_of_row(table_.row_types()[k]);
    }
    const auto row = static_cast<size_t>(rows[i]);
    table_.read(photos_[row], to);
    labels[i] = labels_[row];
  }
}

}  // namespace ndtrain
