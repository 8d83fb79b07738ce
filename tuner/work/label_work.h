// Labels that stores make with a published model: into the label database (relabel), or against
// what their photos' labels say (evaluate).
#pragma once

#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>

#include "framework/core/digest_hash.h"
#include "ndp/labels/label_db.h"
#include "tuner/jobs/job_work.h"
#include "tuner/models/versions.h"
#include "tuner/work/finetune_work.h"

namespace ndtrain::tuner {
using namespace ndp;

// Rows into the label database; a photo that the version has labelled before, or that the job is
// not for, is durable. Keeps references. Paths are STORE/path. The version is put in force: labels
// of others are stale from then on. Throws SinkUnavailable when the database is.
class LabelSink final : public RowSink {
 public:
  LabelSink(LabelDb& db, Clock& clock, const PublishedModel& model, const JobSpec& spec);

  Result<std::vector<uint64_t>> open(const Manifest& manifest) override;
  Status inventory(const RowIngest::Inventory& inventory) override;
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override;

  int64_t labelled() const { return labelled_; }
  int64_t before() const { return before_; }        // photos that were labelled when the job began
  int64_t not_asked() const { return not_asked_; }  // that the job is not for (RelabelOnly)

 private:
  void learn(const PhotoClaims& photos, std::span<const int64_t> ids);
  Status look_up();
  Result<int64_t> store_id(const std::string& name);

  LabelDb& db_;
  Clock& clock_;
  size_t classes_;
  int64_t collection_ = 0, task_ = 0, version_ = 0;
  std::vector<int64_t> class_ids_;
  const Manifest* manifest_ = nullptr;
  // Of what stores hold, until there is a manifest.
  std::vector<std::pair<SharedClaims, std::vector<int64_t>>> listed_;
  // In the database, by number in the manifest; 0: it was deleted.
  std::optional<std::pmr::vector<int64_t>> ids_;
  std::map<std::string, int64_t> stores_;
  const JobSpec& spec_;
  Digest content_;
  int64_t labelled_ = 0, before_ = 0, not_asked_ = 0;
};

class PreviewSink;

class LabelWork final : public JobWork {
 public:
  // `db`: the label database of a relabel. `truths`: what an evaluation goes by, besides what
  // stores say.
  LabelWork(const JobContext& context, JobSpec spec, std::string directory, PublishedModel model,
            LabelDb* db, Progress& progress, HumanLabels truths);
  ~LabelWork() override;

  RowRequest prepare() override;
  RowSink& sink() override { return *sink_; }
  void manifest(const Manifest& manifest, const std::vector<std::string>& stores) override;
  bool run(uint32_t) override { return true; }
  JobOutcome finish() override;
  void discard(const std::function<bool()>&) override {
    if (spool_) spool_->clear().or_throw();
  }

 private:
  JobOutcome evaluation();

  JobContext context_;
  JobSpec spec_;
  std::string directory_;
  PublishedModel model_;
  LabelDb* db_;
  Progress& progress_;
  HumanLabels human_labels_;
  std::unique_ptr<RowSink> sink_;
  LabelSink* labels_ = nullptr;     // of a relabel
  PreviewSink* preview_ = nullptr;  // of one that only says what it would do
  Spool* spool_ = nullptr;          // of an evaluation
  const Manifest* manifest_ = nullptr;
  size_t row_bytes_ = 0;
};

}  // namespace ndtrain::tuner
