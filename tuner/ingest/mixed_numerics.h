// Whether the stores of one job may compute its features with different numerics. Each says what
// the job's extractor makes of a few drawn photos, the same for all; what it says must be close
// enough to what the first one said (ndp/engine/numerics.h). One thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/core/hash.h"
#include "framework/graph/graph.h"

namespace ndtrain::tuner {

// What the sample's rows are, by extractor and numerics, as far as jobs were told.
class NumericsSamples {
 public:
  static constexpr size_t kExtractors = 8;  // that are remembered: those of the newest jobs

  using Rows = std::map<std::string, std::string>;  // by numerics

  const Rows& begin(const Digest& extractor);  // of a job
  void learn(const Digest& extractor, const std::string& numerics, const std::string& rows);

 private:
  std::deque<std::pair<Digest, Rows>> all_;  // the newest job's first
};

class MixedNumerics {
 public:
  static constexpr size_t kSampleBytes = size_t{1} << 20;  // of rows, or a single row

  struct Job {
    Digest extractor{};
    // Its outputs for a batch of 1; {}: what the stores send are no features, and need not agree.
    std::vector<TensorType> features = {};
    bool exact = false;  // only stores of the same numerics
  };
  // The store that the others are compared with.
  struct First {
    std::string store, numerics;
    std::string sample;  // its rows; "": it said none
  };
  // `known` is what jobs share.
  explicit MixedNumerics(
      std::shared_ptr<NumericsSamples> known = std::make_shared<NumericsSamples>())
      : shared_(std::move(known)) {}

  // `first`: of a job that goes on.
  void begin(Job job, std::optional<First> first = std::nullopt);

  // The photos, JPEG files; none where nothing needs to agree, or all of it.
  const std::vector<std::string>& photos() const { return photos_; }
  // What such a store makes of them is not known yet.
  bool asks(const std::string& numerics) const;

  struct Verdict {
    std::string refusal;  // "": the store may take part
    std::string note;     // for people
    bool first = false;   // it is, of this job
  };
  // A store is counted in; `sample` are the rows it sent, if any.
  Verdict admit(const std::string& store, const std::string& numerics, const std::string& sample);
  const First& first() const { return *first_; }

 private:
  void learn(const std::string& numerics, const std::string& rows);
  Verdict compare(const std::string& store, const std::string& numerics) const;

  std::shared_ptr<NumericsSamples> shared_;
  Job job_;
  std::vector<std::string> photos_;
  size_t row_bytes_ = 0;
  NumericsSamples::Rows known_;                  // of the job's extractor
  std::map<std::string, std::string> admitted_;  // numerics -> a store, of this job
  std::optional<First> first_;
};

}  // namespace ndtrain::tuner
