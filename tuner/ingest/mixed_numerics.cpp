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

const NumericsSamples::Rows& NumericsSamples::begin(const Digest& extractor) {
  const auto at = std::ranges::find(all_, extractor, &decltype(all_)::value_type::first);
  std::pair<Digest, Rows> mine{extractor, {}};
  if (at != all_.end()) {
    mine = std::move(*at);
    all_.erase(at);
  }
  all_.push_front(std::move(mine));
  if (all_.size() > kExtractors) all_.pop_back();
  return all_.front().second;
}

void NumericsSamples::learn(const Digest& extractor, const std::string& numerics,
                            const std::string& rows) {
  const auto at = std::ranges::find(all_, extractor, &decltype(all_)::value_type::first);
  if (at != all_.end()) at->second.emplace(numerics, rows);
}

void MixedNumerics::begin(Job job, std::optional<First> first) {
  job_ = std::move(job);
  first_ = std::move(first);
  admitted_.clear();
  if (first_) admitted_.emplace(first_->numerics, first_->store);
  photos_.clear();
  known_.clear();
  row_bytes_ = 0;
  for (const TensorType& t : job_.features) row_bytes_ += bytes_of_row(t);
  if (row_bytes_ == 0 || job_.exact) return;
  const size_t n = std::clamp<size_t>(kSampleBytes / row_bytes_, 1, sample().size());
  photos_.assign(sample().begin(), sample().begin() + static_cast<int64_t>(n));
  known_ = shared_->begin(job_.extractor);
  if (first_) learn(first_->numerics, first_->sample);
}

void MixedNumerics::learn(const std::string& numerics, const std::string& rows) {
  if (!asks(numerics) || rows.size() != photos_.size() * row_bytes_) return;
  known_.emplace(numerics, rows);
  shared_->learn(job_.extractor, numerics, rows);
}

bool MixedNumerics::asks(const std::string& numerics) const {
  return !photos_.empty() && !known_.contains(numerics);
}

MixedNumerics::Verdict MixedNumerics::admit(const std::string& store, const std::string& numerics,
                                            const std::string& rows) {
  learn(numerics, rows);
  if (admitted_.contains(numerics)) return {};
  Verdict v;
  if (!first_) {
    const bool said = !photos_.empty() && known_.contains(numerics);
    first_ = {store, numerics, said ? known_.at(numerics) : ""};
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
    if (known_.contains(of)) continue;
    return {what + "; " + name + " does not say what it makes of the sample of photos" + kRemedy,
            ""};
  }
  NumericsCheck check(job_.features);
  const auto row = [&](const std::string& of, size_t i) {
    return std::as_bytes(std::span(known_.at(of))).subspan(i * row_bytes_, row_bytes_);
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
