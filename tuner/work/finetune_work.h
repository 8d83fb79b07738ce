// Fine-tuning on features that stores send: the Tuner cuts the model, trains what lies behind the
// cut run by run, and writes the whole model.
#pragma once

#include "framework/core/clock.h"
#include "framework/core/json_fwd.h"
#include "framework/runtime/devices.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/jobs/training_loop.h"
#include "tuner/group/leader.h"
#include "tuner/ingest/extracting_sink.h"
#include "tuner/ingest/spool.h"
#include "tuner/jobs/job_work.h"
#include "tuner/models/model_store.h"
#include "tuner/work/job_context.h"
#include "tuner/work/promotion.h"

namespace ndtrain::tuner {
using namespace ndp;

// What people say of photos elsewhere than at the stores; called on the job's lane.
using HumanLabels = std::function<std::vector<PhotoClaim>()>;

// The model that a fine-tuning begins with, cut. Its extractor does not depend on the classes,
// which only the stores' inventories tell: any will do to have it. Throws Error when nothing is
// frozen.
TransferModel transfer_of(const ModelFile& model, const JobSpec& spec,
                          const std::vector<std::string>& classes);
std::vector<std::string> any_classes(const ModelFile& model, const JobSpec& spec);

// Of mode ideal: the photos that the Tuner has itself, with labels. Throws Error.
PhotoSet photos_here(const JobContext& context, const JobSpec& spec, const std::string& directory,
                     Progress& progress);
std::vector<PhotoClaim> claims_of(const PhotoSet& set);
// Features of those of a run that are not in the spool from before a restart.
void extract_here(Fs& fs, TunerExtractor& extractor, Spool& spool, const PhotoSet& set,
                  const Manifest& manifest, uint32_t run, Progress& progress);

class FinetuneWork final : public JobWork {
 public:
  FinetuneWork(const JobContext& context, const Versions& versions, uint64_t job, JobSpec spec,
               std::string directory, Progress& progress, HumanLabels truths);

  RowRequest prepare() override;
  RowSink& sink() override { return sink_ ? *sink_ : static_cast<RowSink&>(*spool_); }
  void manifest(const Manifest& manifest, const std::vector<std::string>& stores) override;
  bool run(uint32_t run) override;
  JobOutcome finish() override;
  void discard(const std::function<bool()>& stop) override;

 private:
  struct RunReport {
    uint32_t run = 0;
    int64_t photos = 0;
    EpochRow last;
    double train_s = 0;
  };

  void ask_for_rows(RowRequest& request);
  void share_features();
  void say_what_is_here() const;
  std::string fingerprint() const;
  std::unique_ptr<SpoolDataset> dataset(std::span<const uint64_t> numbers, int64_t memory,
                                        SpoolDataset::Epoch epoch = {});
  std::vector<bool> choose(std::span<const ManifestEntry> photos,
                           const std::vector<std::string>& classes) const;
  bool is_recent(const ManifestEntry& photo) const;
  RowWeights weights_of(const SpoolDataset& rows) const;
  void begin_run(uint32_t run);
  bool is_out_of_patience() const;
  const Device& device() const;
  void make_training();
  GroupRules group_rules(DType compute) const;
  int64_t least_rows() const;
  int64_t parameters() const;
  void report(const RunReport& r);
  Json runs_json() const;
  Json result_json(const Evaluation& e, int64_t epochs) const;
  void write_report(const Evaluation& e, const std::optional<Promotion>& rule);
  TransferModel transfer(const std::vector<std::string>& classes) const;
  Promotion by_rule(const Evaluation& e, const std::vector<PhotoClaim>& people_say);
  void say_promotion(const Promotion& p, Json& result, Json& metrics);

  JobContext context_;
  const Versions& versions_;
  uint64_t job_;
  JobSpec spec_;
  const int64_t memory_;  // for features, in bytes
  std::string directory_;
  Progress& progress_;
  HumanLabels human_labels_;
  ModelFile model_;
  std::optional<Model> lowered_;  // whose extractor it is, where a precision was asked for
  TransferModel transfer_;
  std::vector<TensorType> row_types_;
  Digest extractor_{};  // of the file
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<TunerExtractor> here_;  // where the Tuner extracts
  std::unique_ptr<RowSink> sink_;         // what comes before the spool
  PhotoSet local_;                        // of mode ideal
  const Manifest* manifest_ = nullptr;
  size_t stores_ = 0;
  std::unique_ptr<RunDirectory> run_directory_;
  std::unique_ptr<GroupLeader> group_;  // where several Tuners train
  std::unique_ptr<Trainer> alone_;      // or one
  Training* training_ = nullptr;        // of either
  std::unique_ptr<TrainingLoop> loop_;
  std::unique_ptr<SpoolDataset> val_;
  std::vector<RunReport> reports_;
};

}  // namespace ndtrain::tuner
