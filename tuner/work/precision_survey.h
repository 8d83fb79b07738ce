// What comes before a job in a precision that was asked for: the stores send crops of a few photos
// of the collection, on which the Tuner measures the scales of int8 and compares the precision with
// f32 (ndp/jobs/low_precision.h). What comes of it is a model file in the job's directory, and the
// job's own work begins. Since scales travel in it, all stores compute one function. In mode ideal
// the Tuner takes photos of its own instead.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ndp/jobs/low_precision.h"
#include "tuner/work/finetune_work.h"

namespace ndtrain::tuner {
using namespace ndp;

// Crops of the photos with the smallest digests, as many as the sample is to have.
class SurveySink final : public RowSink {
 public:
  // Keeps them and what stores say of their speed below `directory`.
  SurveySink(const JobContext& context, const std::string& directory, const Preprocess& preprocess,
             size_t photos, int64_t disk);

  Status inventory(const RowIngest::Inventory& inventory) override;
  // All photos but the sample count as durable, so that stores are asked for it alone.
  Result<std::vector<uint64_t>> open(const Manifest& manifest) override;
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override {
    return spool_.keep(rows);
  }

  // Labels are those below `classes`. This and `manifest` must outlive it.
  PhotoSample sample(const Manifest& manifest, size_t classes);
  const std::map<std::string, double>& gains() const { return gains_; }  // by store
  void clear() { spool_.clear().or_throw(); }

 private:
  bool fill(const Digest& photo, float* to);

  Fs& fs_;
  std::string gains_file_;
  Preprocess preprocess_;
  size_t photos_;
  Spool spool_;
  std::map<std::string, double> gains_;  // times as fast in bf16 as in f32
};

class PrecisionSurvey final : public JobWork {
 public:
  PrecisionSurvey(const JobContext& context, JobSpec spec, std::string directory,
                  Progress& progress, HumanLabels truths);

  // Of a job in this directory: its model lowered, or the whole that its extractor is cut from.
  static std::string outcome(const std::string& directory);
  // Whether the outcome, which is there, is as it was written, as lowered.json beside it says; one
  // of an earlier program has none. Throws Error where it cannot be read.
  static bool is_whole(Fs& fs, const std::string& directory);
  // Whether the job needs one and has none yet. Makes the outcome where that takes no photos.
  static bool is_due(const JobContext& context, const JobSpec& spec, const std::string& directory,
                     Progress& progress);

  RowRequest prepare() override;
  RowSink& sink() override { return *sink_; }
  void manifest(const Manifest& manifest, const std::vector<std::string>& stores) override;
  bool run(uint32_t run) override;
  JobOutcome finish() override;

 private:
  PrecisionConfig config() const;  // with what `auto` means for these stores
  PhotoSample sample_here();

  JobContext context_;
  JobSpec spec_;
  std::string directory_;
  Progress& progress_;
  HumanLabels human_labels_;
  ModelFile model_;
  std::unique_ptr<SurveySink> sink_;
  std::optional<PhotoSet> here_;  // of mode ideal: the Tuner's own photos, instead of crops
  const Manifest* manifest_ = nullptr;
};

}  // namespace ndtrain::tuner
