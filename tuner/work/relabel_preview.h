// What a relabelling would do, from a sample of its photos; the database stays as it is.
#pragma once

#include "framework/core/clock.h"
#include "tuner/work/label_work.h"
#include "tuner/work/relabel_choice.h"

namespace ndtrain::tuner {
using namespace ndp;

class PreviewSink final : public RowSink {
 public:
  static constexpr size_t kSample = 512;

  // Keeps references.
  PreviewSink(LabelDb& db, Clock& clock, const PublishedModel& model, const JobSpec& spec);

  // All photos but the sample count as durable, so that stores are asked for it alone.
  Result<std::vector<uint64_t>> open(const Manifest& manifest) override;
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override;

  std::string report() const;  // JSON

 private:
  LabelDb& db_;
  Clock& clock_;
  const PublishedModel& model_;
  const JobSpec& spec_;
  CurrentLabels current_;
  const Manifest* manifest_ = nullptr;
  int64_t photos_ = 0, missing_ = 0, sample_ = 0;  // to be labelled; of those, without any label
  Agreement same_;  // of the sample, what a model has labelled before, and says again
  std::chrono::nanoseconds begun_{0}, last_{0};
};

}  // namespace ndtrain::tuner
