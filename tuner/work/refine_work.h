// Which labels that people and imports said are contradicted by what stores' photos show
// (ndp/jobs/refine_labels.h): stores send the features of the version in force, those that earlier
// jobs have left are here, and the list becomes the task's issues, which reviews begin with. No
// label changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ndp/jobs/refine_labels.h"
#include "ndp/labels/label_db.h"
#include "tuner/ingest/spool.h"
#include "tuner/jobs/job_work.h"
#include "tuner/work/job_context.h"

namespace ndtrain::tuner {
using namespace ndp;

class RefineWork final : public JobWork {
 public:
  // `truths`: the labels that are looked at, as `db` has them. Throws Error where the version has
  // no extractor of its own.
  RefineWork(const JobContext& context, uint64_t job, JobSpec spec, std::string directory,
             PublishedModel model, LabelDb& db, Progress& progress, std::vector<PhotoClaim> truths);

  RowRequest prepare() override;
  RowSink& sink() override { return *spool_; }
  void manifest(const Manifest& manifest, const std::vector<std::string>& stores) override;
  bool run(uint32_t) override { return true; }
  // Embeddings of all photos that are looked at are in memory, 4 bytes a number; it is not
  // interrupted.
  JobOutcome finish() override;
  void discard(const std::function<bool()>& stop) override;

 private:
  KnownPhotos known_photos();
  void say(const RefinedLabels& refined);

  JobContext context_;
  uint64_t job_;
  JobSpec spec_;
  std::string directory_;
  PublishedModel model_;
  LabelDb& db_;
  Progress& progress_;
  std::vector<PhotoClaim> truths_;
  std::vector<TensorType> row_types_;
  size_t row_bytes_ = 0;
  std::unique_ptr<Spool> spool_;
  const Manifest* manifest_ = nullptr;
};

}  // namespace ndtrain::tuner
