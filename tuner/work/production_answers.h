// What comes before a fine-tuning whose extractor is not that of the version in force: the features
// that the version's own extractor makes of the photos that will validate, which stores send but
// for those that earlier jobs left, and what its head answers for them. So the rule of promotion
// has both versions' answers for the same photos. In mode ideal the Tuner extracts from photos of
// its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/work/answers.h"
#include "tuner/work/finetune_work.h"

namespace ndtrain::tuner {
using namespace ndp;

class ProductionAnswers final : public JobWork {
 public:
  // `version`: in force.
  ProductionAnswers(const JobContext& context, PublishedModel version, JobSpec spec,
                    std::string directory, Progress& progress, HumanLabels truths);

  // Of a job in this directory; nullopt: that version has not been asked.
  static std::optional<Answers> outcome(Fs& fs, const std::string& directory,
                                        const PublishedModel& version);
  // The version whose answers the job needs and has not yet; nullopt: none.
  static std::optional<PublishedModel> due(const JobContext& context, const Versions& versions,
                                           uint64_t job, const JobSpec& spec,
                                           const std::string& directory);

  RowRequest prepare() override;
  RowSink& sink() override { return *sink_; }
  void manifest(const Manifest& manifest, const std::vector<std::string>& stores) override;
  bool run(uint32_t run) override;
  JobOutcome finish() override;

 private:
  JobContext context_;
  PublishedModel version_;
  JobSpec spec_;
  std::string directory_;
  Progress& progress_;
  HumanLabels human_labels_;
  ModelFile extractor_;
  std::vector<TensorType> row_types_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<RowSink> sink_;
  PhotoSet local_;  // of mode ideal
  const Manifest* manifest_ = nullptr;
};

}  // namespace ndtrain::tuner
