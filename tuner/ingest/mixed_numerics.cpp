#include "tuner/ingest/mixed_numerics.h"

#include <fmt/format.h>

#include <algorithm>

#include "ndp/engine/numerics.h"
#include "ndp/engine/numerics_sample.h"
#include "ndp/jobs/features.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr const char* kRemedy =
    "; give all stores one backend, processor and version, or take one of them out of the job "
    "(ndtrain store drain)";

// Drawn once: every job has the same, or fewer of them.
const std::vector<std::string>& sample() {
  static const std::vector<std::string> photos = numerics_sample(kNumericsSample);
  return photos;
}

}  // namespace

void MixedNumerics::begin(Job job, std::optional<First> first) {
  job_ = std::move(job);
  first_ = std::move(first);
  admitted_.clear();
  if (first_) admitted_.emplace(first_->numerics, first_->store);
  photos_.clear();
  row_bytes_ = 0;
  for (const TensorType& t : job_.features) row_bytes_ += bytes_of_row(t);
  if (row_bytes_ == 0 || job_.exact) return;
  const size_t n = std::clamp<size_t>(kSampleBytes / row_bytes_, 1, sample().size());
  photos_.assign(sample().begin(), sample().begin() + static_cast<int64_t>(n));
  const auto at =
      std::ranges::find(samples_, job_.extractor, &decltype(samples_)::value_type::first);
  std::pair<Digest, Samples> mine{job_.extractor, {}};
  if (at != samples_.end()) {
    mine = std::move(*at);
    samples_.erase(at);
  }
  samples_.push_front(std::move(mine));
  if (samples_.size() > kExtractors) samples_.pop_back();
  if (first_) learn(first_->numerics, first_->sample);
}

void MixedNumerics::learn(const std::string& numerics, const std::string& rows) {
  if (!asks(numerics) || rows.size() != photos_.size() * row_bytes_) return;
  samples_.front().second.emplace(numerics, rows);
}

const MixedNumerics::Samples& MixedNumerics::known() const { return samples_.front().second; }

bool MixedNumerics::asks(const std::string& numerics) const {
  return !photos_.empty() && !known().contains(numerics);
}

MixedNumerics::Verdict MixedNumerics::admit(const std::string& store, const std::string& numerics,
                                            const std::string& rows) {
  learn(numerics, rows);
  if (admitted_.contains(numerics)) return {};
  Verdict v;
  if (!first_) {
    const bool said = !photos_.empty() && known().contains(numerics);
    first_ = {store, numerics, said ? known().at(numerics) : ""};
    v.first = true;
  } else {
    v = compare(store, numerics);
  }
  if (v.refusal.empty()) admitted_.emplace(numerics, store);
  return v;
}

MixedNumerics::Verdict MixedNumerics::compare(const std::string& store,
                                              const std::string& numerics) const {
  const std::string what =
      fmt::format("the stores compute with different numerics: {} with {}; {} with {}",
                  first_->store, first_->numerics, store, numerics);
  if (job_.exact) {
    return {what + "; a deterministic job needs one kind of processor, backend and version", ""};
  }
  if (photos_.empty()) return {};
  for (const auto& [name, of] :
       {std::pair(first_->store, first_->numerics), std::pair(store, numerics)}) {
    if (known().contains(of)) continue;
    return {what + "; " + name + " does not say what it makes of the sample of photos" + kRemedy,
            ""};
  }
  NumericsCheck check(job_.features);
  const auto row = [&](const std::string& of, size_t i) {
    return std::as_bytes(std::span(known().at(of))).subspan(i * row_bytes_, row_bytes_);
  };
  for (size_t i = 0; i < photos_.size(); ++i) check.add(row(numerics, i), row(first_->numerics, i));
  const std::string off =
      fmt::format("; on {} photos their features differ by {:.2g} of the standard deviation",
                  photos_.size(), check.difference());
  if (check.passed())
    return {"", what + off + fmt::format(", of which {:g} may be", kNumericsTolerance)};
  return {what + off + fmt::format(", more than {:g}", kNumericsTolerance) + kRemedy, ""};
}

}  // namespace ndtrain::tuner
