#include "tuner/work/refine_work.h"

#include <fmt/format.h>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/runtime/backend.h"
#include "ndp/engine/feature_rows.h"
#include "ndp/jobs/features.h"
#include "ndp/labels/label_json.h"
#include "ndp/similarity/embedding.h"
#include "ndp/wire/digests.h"
#include "tuner/ingest/row_check.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr size_t kSaid = 10;     // contradicted labels in the job's log
constexpr size_t kListed = 100;  // and in its result

}  // namespace

RefineWork::RefineWork(const JobContext& context, uint64_t job, JobSpec spec, std::string directory,
                       PublishedModel model, LabelDb& db, Progress& progress,
                       std::vector<PhotoClaim> truths)
    : context_(context),
      job_(job),
      spec_(std::move(spec)),
      directory_(std::move(directory)),
      model_(std::move(model)),
      db_(db),
      progress_(progress),
      truths_(std::move(truths)) {
  if (model_.extractor == model_.head) {
    throw Error(text_of(model_),
                " has no extractor, by whose features photos could be compared: put one in force "
                "that a fine-tuning has made");
  }
}

RowRequest RefineWork::prepare() {
  row_types_ = row_types_of(context_.models.load(model_.extractor).model);
  row_bytes_ = 0;
  for (const TensorType& t : row_types_) row_bytes_ += bytes_of_row(t);
  spool_ = std::make_unique<Spool>(context_.fs, context_.clock, join(directory_, "spool"),
                                   model_.extractor, spec_.disk);
  if (context_.features) {
    spool_->share(std::make_unique<JobFeatures>(
        *context_.features, context_.fs, join(directory_, "spool/begun_with.json"),
        JobFeatures::What{.extractor = model_.extractor, .exact = spec_.deterministic}));
  }
  RowRequest q;
  q.ask.set_rows(wire::Job::FEATURES);
  q.ask.set_extractor(bytes_of(model_.extractor));
  q.ask.set_deterministic(spec_.deterministic);
  q.row_bytes = row_bytes_;
  q.features = row_types_;
  q.check = finite_features(row_types_);
  q.manifest = {.seed = spec_.seed,
                .runs = 1,
                .val_split = 0,
                .classes = model_.classes,
                .add_classes = true,
                .holders_label = false,
                .truths = truths_};
  return q;
}

void RefineWork::manifest(const Manifest& manifest, const std::vector<std::string>& stores) {
  manifest_ = &manifest;
  if (manifest.size() == 0) {
    throw Error(
        "of none of the stores' photos anybody has said what it shows: ndtrain labels set, review "
        "or import say it");
  }
  progress_.say(fmt::format(
      "{}: {} photos with a label on {} store{}; features of {} are here from earlier jobs",
      text_of(model_), manifest.size(), stores.size(), stores.size() == 1 ? "" : "s",
      spool_->shared()));
}

// Of the photos whose rows have come.
KnownPhotos RefineWork::known_photos() {
  KnownPhotos known{.rows = {.dimensions = embedding_size(row_types_)}};
  std::vector<std::byte> row(row_bytes_);
  for (uint64_t n = 0; n < manifest_->size(); ++n) {
    const Digest& photo = manifest_->entry(n).digest;
    if (!spool_->has(photo)) continue;
    spool_->read(photo, row);
    const std::optional<Embedding> embedding = embedding_of(row_types_, row);
    if (!embedding) continue;
    known.rows.add(*embedding);
    known.photos.push_back(photo);
  }
  return known;
}

void RefineWork::say(const RefinedLabels& refined) {
  for (size_t i = 0; i < std::min(kSaid, refined.issues.size()); ++i) {
    const RefinedLabel& r = refined.issues[i];
    progress_.say(fmt::format("{}: {} ({:.3f}), other photos say {} ({:.3f})", r.label.path,
                              r.label.class_name, r.score, r.suggested_name, r.suggested_score));
  }
  if (refined.issues.size() > kSaid) {
    progress_.say(fmt::format("and {} more", refined.issues.size() - kSaid));
  }
  if (!refined.issues.empty() && !spec_.dry_run) {
    progress_.say("ndtrain labels review, and the dashboard's review, begin with these");
  }
}

JobOutcome RefineWork::finish() {
  const KnownPhotos known = known_photos();
  const int64_t collection = demand(existing_collection(db_, spec_.collection));
  const int64_t task = demand(existing_task(db_, spec_.task));
  const RefinedLabels refined =
      refine_labels(truth_rows(db_, collection, task, known), known, shared_threads());
  if (!spec_.dry_run) keep_issues(db_, task, refined);
  say(refined);
  Json first = Json::array();
  for (size_t i = 0; i < std::min(kListed, refined.issues.size()); ++i) {
    first.push_back(to_json(refined.issues[i]));
  }
  Json result = version_json(number_of(model_), model_.content);
  result.update({{"photos", manifest_->size()},
                 {"looked_at", refined.truth.labels.size()},
                 {"classes", refined.truth.classes.size()},
                 {"features_of_earlier_jobs", spool_->shared()},
                 {"rare", refined.rare},
                 {"without_features", refined.truth.without_embedding},
                 {"held_out_accuracy", accuracy(refined.truth.examples, refined.held_out)},
                 {"contradicted", refined.issues.size()},
                 {"first", std::move(first)}});
  return {.result = json_text(result), .model = std::nullopt};
}

void RefineWork::discard(const std::function<bool()>& stop) {
  const Status s = spool_->leave(*manifest_, stop);
  if (!s.ok()) {
    log::warn("job {}: some of its features are not kept for later jobs: {}", job_, s.message());
  }
  spool_->clear().or_throw();
}

}  // namespace ndtrain::tuner
