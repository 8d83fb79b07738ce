#include "ndp/jobs/features.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/core/log.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kFlushBytes = int64_t{64} << 20;

// Which photos are computed anew does not depend on where they are or in what order they came.
std::vector<size_t> first_by_digest(const std::vector<Photo>& photos, std::vector<size_t> items) {
  const size_t n = std::min(items.size(), kNumericsSample);
  std::ranges::partial_sort(items, items.begin() + static_cast<std::ptrdiff_t>(n), {},
                            [&](size_t i) { return std::pair(photos[i].digest, i); });
  items.resize(n);
  return items;
}

std::string verdict_on(size_t photos, const NumericsCheck& check, bool exact) {
  const std::string what = fmt::format(
      "the cached features of {} photos were computed by another processor, backend or version",
      photos);
  if (exact) return what + "; --deterministic computes them anew";
  if (check.rows() == 0) return what + ", and none could be checked: all are computed anew";
  return fmt::format(
      "{}; {} computed anew differ by {:.2g} of a standard deviation ({} is allowed): {}", what,
      check.rows(), check.difference(), kNumericsTolerance,
      check.passed() ? "they are used" : "all are computed anew");
}

}  // namespace

int64_t half_of_free_memory() {
  const int64_t free = int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::max(free / 2, int64_t{256} << 20);
}

FeatureTable::FeatureTable(FeatureCache& cache, Digest extractor, std::vector<TensorType> row_types,
                           int64_t memory_limit)
    : cache_(cache),
      kind_{.extractor = extractor, .row_types = std::move(row_types)},
      row_bytes_(kind_.row_bytes()),
      memory_limit_(memory_limit) {
  scratch_.resize(row_bytes_);
}

bool FeatureTable::in_memory(size_t photos) const {
  return static_cast<int64_t>(photos * row_bytes_) <= memory_limit_;
}

std::optional<uint64_t> FeatureTable::take_cached(const FeatureRows& rows, size_t photo) {
  return rows.cached((*photos_)[photo].digest, in_memory_ ? place(photo) : std::span<std::byte>());
}

void FeatureTable::judge_foreign(const FeatureRows& rows, const Foreign& foreign, Engine& engine,
                                 const Engine::Open& open, bool exact, Progress& progress,
                                 ExtractionReport& report) {
  std::vector<size_t> sample;
  std::map<size_t, uint64_t> tag_of;
  std::map<uint64_t, NumericsCheck> checks;
  for (const auto& [tag, items] : foreign) {
    checks.emplace(tag, kind_.row_types);
    if (exact) continue;
    for (const size_t i : first_by_digest(*photos_, items)) {
      sample.push_back(i);
      tag_of[i] = tag;
    }
  }
  std::vector<std::byte> ours(row_bytes_);
  if (!sample.empty()) {
    auto name = [&](size_t i) { return (*photos_)[i].path; };
    engine.run(sample, name, open, [&](const Engine::Batch& batch) {
      for (size_t r = 0; r < batch.items.size(); ++r) {
        const Result<std::span<const std::byte>> theirs = row(batch.items[r]);
        if (!theirs.ok()) continue;
        rows.copy_row(batch.outputs, r, ours);
        checks.at(tag_of.at(batch.items[r])).add(*theirs, ours);
      }
      return !progress.interrupted();
    });
  }
  for (const auto& [tag, items] : foreign) {
    const NumericsCheck& check = checks.at(tag);
    progress.say(verdict_on(items.size(), check, exact));
    report.sampled += static_cast<int64_t>(check.rows());
    (check.passed() ? report.foreign_accepted : report.foreign_refused) +=
        static_cast<int64_t>(items.size());
    if (check.passed()) continue;
    for (const size_t i : items) present_[i] = false;
  }
}

void FeatureTable::no_room(const Status& status) const {
  if (!in_memory_) {
    throw Error(
        "the features do not fit the cache: ", status.message(),
        "; give --cache on a larger volume, a smaller cut, --cache-dtype f16 or --head linear");
  }
  log::warn("features are not kept for the next time: {}", status.message());
}

ExtractionReport FeatureTable::fill(const std::vector<Photo>& photos, Engine& engine,
                                    const Engine::Open& open, const NumericsRule& numerics,
                                    Progress& progress, std::vector<QuarantinedPhoto>& quarantined,
                                    std::map<std::string, int64_t>& skipped) {
  photos_ = &photos;
  kind_.numerics = numerics_tag(numerics.id);
  present_.assign(photos.size(), false);
  in_memory_ = in_memory(photos.size());
  if (in_memory_) memory_.resize(photos.size() * row_bytes_);
  cache_.open();
  ExtractionReport report;
  std::vector<size_t> missing = look_up(engine, open, numerics, progress, report);
  if (!missing.empty() && !cache_.writes()) {
    if (!cache_.open_to_write(progress)) return report;
    missing = look_up(engine, open, numerics, progress, report);
  }
  report.cached = static_cast<int64_t>(photos.size() - missing.size());
  if (!missing.empty()) {
    extract(missing, engine, open, progress, quarantined, skipped, report);
  }
  in_memory_ ? cache_.close() : cache_.stop_writing(kind_.extractor);
  return report;
}

std::vector<size_t> FeatureTable::look_up(Engine& engine, const Engine::Open& open,
                                          const NumericsRule& numerics, Progress& progress,
                                          ExtractionReport& report) {
  const std::vector<Photo>& photos = *photos_;
  const FeatureRows rows(&cache_.store(), kind_);
  Foreign foreign;
  report = {};
  if (!in_memory_) cache_.store().pin(kind_.extractor);
  int64_t found = 0;
  for (size_t i = 0; i < photos.size(); ++i) {
    const std::optional<uint64_t> tag = take_cached(rows, i);
    present_[i] = tag.has_value();
    if (!tag) continue;
    if (*tag != kind_.numerics) foreign[*tag].push_back(i);
    if (found == 0) progress.begin("reading cached features", 0, "photos");
    if (++found % 64 == 0) progress.update(found);
  }
  if (found > 0) {
    progress.update(found);
    progress.end();
  }

  judge_foreign(rows, foreign, engine, open, numerics.exact, progress, report);
  std::vector<size_t> missing;
  for (size_t i = 0; i < photos.size(); ++i) {
    if (!present_[i]) missing.push_back(i);
  }
  return missing;
}

void FeatureTable::extract(const std::vector<size_t>& missing, Engine& engine,
                           const Engine::Open& open, Progress& progress,
                           std::vector<QuarantinedPhoto>& quarantined,
                           std::map<std::string, int64_t>& skipped, ExtractionReport& report) {
  int64_t done = 0, unflushed = 0;
  const auto name = [&](size_t i) { return (*photos_)[i].path; };
  const auto take = [&](size_t i, std::span<const std::byte> row) {
    if (in_memory_) std::ranges::copy(row, place(i).begin());
    present_[i] = true;
    unflushed += static_cast<int64_t>(row.size());
    return true;
  };
  const auto bad = [&](const BadPhoto& photo) {
    if ((*photos_)[photo.item].view > 0) return;  // its first view is listed
    if (photo.reason.code() == Code::kUnsupported) {
      ++skipped[extension_of(name(photo.item))];
    } else {
      quarantined.push_back({name(photo.item), photo.reason.message()});
    }
  };
  const auto go_on = [&](size_t photos) {
    done += static_cast<int64_t>(photos);
    if (unflushed >= kFlushBytes) {
      cache_.store().flush().or_throw();
      unflushed = 0;
    }
    progress.update(done);
    return !progress.interrupted();
  };
  progress.begin("extracting features", static_cast<int64_t>(missing.size()), "photos");
  FeatureRows rows(&cache_.store(), kind_);
  report.engine =
      rows.extract(engine, missing,
                   {.digest = [&](size_t i) -> const Digest& { return (*photos_)[i].digest; },
                    .name = name,
                    .open = open,
                    .take = take,
                    .bad = bad,
                    .full = [this](const Status& s) { no_room(s); },
                    .go_on = go_on});
  cache_.store().flush().or_throw();
  progress.end();
  report.extracted = report.engine.photos;
}

Result<std::span<const std::byte>> FeatureTable::row(size_t photo) {
  if (in_memory_) return std::span<const std::byte>(place(photo));
  const Result<Found> found =
      cache_.store().get(kind_.extractor, (*photos_)[photo].digest, scratch_);
  if (!found.ok()) return found.status();
  return std::span<const std::byte>(scratch_).first(row_bytes_);
}

void FeatureTable::read(size_t photo, std::span<std::byte* const> to) {
  const Result<std::span<const std::byte>> found = row(photo);
  if (!found.ok()) {
    throw Error("features of ", (*photos_)[photo].path,
                " are gone from the cache: ", found.status().message(),
                "; run again to extract them anew");
  }
  const std::byte* from = found->data();
  for (size_t k = 0; k < kind_.row_types.size(); ++k) {
    const size_t bytes = bytes_of_row(kind_.row_types[k]);
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

}  // namespace ndtrain::ndp
