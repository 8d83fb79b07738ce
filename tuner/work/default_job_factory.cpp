#include "tuner/work/default_job_factory.h"

#include "tuner/work/precision_survey.h"
#include "tuner/work/production_answers.h"
#include "tuner/work/refine_work.h"

namespace ndtrain::tuner {
using namespace ndp;

// The version in force, or any model file as a whole.
PublishedModel DefaultJobFactory::model_of(const JobSpec& spec,
                                           const std::string& directory) const {
  if (spec.model.empty()) {
    const std::optional<PublishedModel> model = versions_.in_force(spec.task);
    if (!model) throw Error("no version", of_task(spec.task), " is in force");
    return *model;
  }
  const Digest file =
      spec.precision.empty()
          ? digest_from_hex(spec.model)
          : context_.models.add_file(PrecisionSurvey::outcome(directory)).or_throw();
  const ModelFile model = context_.models.load(file);
  PublishedModel m{.task = spec.task, .content = model.id(), .extractor = file, .head = file};
  for (int64_t i = 0, n = model.outputs(); i < n; ++i) m.classes.push_back(model.class_name(i));
  m.created = context_.clock.unix_seconds();
  return m;
}

std::unique_ptr<JobWork> DefaultJobFactory::make(uint64_t job, const JobSpec& spec,
                                                 const std::string& directory, Progress& progress) {
  const HumanLabels truths = [this, spec] { return this->truths(spec.collection, spec.task); };
  if (PrecisionSurvey::is_due(context_, spec, directory, progress)) {
    return std::make_unique<PrecisionSurvey>(context_, spec, directory, progress, truths);
  }
  if (auto version = ProductionAnswers::due(context_, versions_, job, spec, directory)) {
    return std::make_unique<ProductionAnswers>(context_, std::move(*version), spec, directory,
                                               progress, truths);
  }
  if (spec.kind == JobKind::kFinetune) {
    return std::make_unique<FinetuneWork>(context_, versions_, job, spec, directory, progress,
                                          truths);
  }
  if (spec.kind == JobKind::kRefine) {
    return std::make_unique<RefineWork>(context_, job, spec, directory, model_of(spec, directory),
                                        labels(), progress, truths());
  }
  LabelDb* db = spec.kind == JobKind::kRelabel ? &labels() : nullptr;
  return std::make_unique<LabelWork>(context_, spec, directory, model_of(spec, directory), db,
                                     progress, truths);
}

std::vector<PhotoClaim> DefaultJobFactory::truths(const std::string& collection_name,
                                                  const std::string& task_name) {
  if (labels_.empty()) return {};
  LabelDb* const db = existing_labels();
  if (!db) return {};
  LabelQuery query{.sources = {LabelSource::kHuman, LabelSource::kImport}, .limit = 10'000};
  const auto collection = existing_collection(*db, collection_name);
  const auto task = existing_task(*db, task_name);
  for (const Status& s : {collection.status(), task.status()}) {
    if (s.code() == Code::kNotFound) return {};
    demand(s);
  }
  query.collection = *collection;
  query.task = *task;
  std::vector<PhotoClaim> claims;
  for (bool more = true; more;) {
    LabelPage page = demand(db->query(query));
    for (LabelRow& row : page.rows) {
      claims.push_back({.digest = row.digest,
                        .label = std::move(row.class_name),
                        .source = row.source,
                        .time = row.time});
    }
    more = page.next.has_value();
    if (more) query.after = *page.next;
  }
  return claims;
}

LabelDb* DefaultJobFactory::existing_labels() {
  const std::lock_guard lock(mutex_);
  if (db_) return db_.get();
  Result<std::unique_ptr<LabelDb>> db = open_label_db(labels_, OpenLabelDb::kExisting);
  if (db.status().code() == Code::kNotFound) return nullptr;
  db_ = demand(std::move(db));
  return db_.get();
}

LabelDb& DefaultJobFactory::labels() {
  const std::lock_guard lock(mutex_);
  // What goes wrong names the database, without the password that its URL may have.
  if (!db_) db_ = demand(open_label_db(labels_));
  return *db_;
}

}  // namespace ndtrain::tuner
