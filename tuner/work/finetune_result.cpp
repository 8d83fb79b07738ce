// What a fine-tuning ends with: its models, figures and report.
#include <fmt/format.h>

#include <cmath>

#include "framework/core/json.h"
#include "framework/train/class_quality.h"
#include "ndp/jobs/report.h"
#include "tuner/work/finetune_work.h"

namespace ndtrain::tuner {
using namespace ndp;

Json FinetuneWork::runs_json() const {
  Json runs = Json::array();
  for (const RunReport& r : reports_) {
    const auto& val = r.last.val;
    runs.push_back({{"run", r.run},
                    {"photos", r.photos},
                    {"train_s", r.train_s},
                    {"train_loss", r.last.train_loss},
                    {"val_loss", val ? Json(val->loss) : Json()},
                    {"top1", val ? Json(val->top1) : Json()},
                    {"top5", val ? Json(val->top5) : Json()}});
  }
  return runs;
}

Json FinetuneWork::result_json(const Evaluation& e, int64_t epochs) const {
  int64_t photos = 0;
  for (const RunReport& r : reports_) photos += r.photos;
  const auto of_validation = [&](double x) { return val_->size() > 0 ? Json(x) : Json(); };
  Json result = {{"top1", of_validation(e.top1)},
                 {"top5", of_validation(e.top5)},
                 {"val_loss", of_validation(e.loss)},
                 {"macro_f1", of_validation(macro_f1(class_quality(e.confusion)).value_or(0))},
                 {"best_epoch", loop_->best_epoch() + 1},
                 {"epochs", epochs},
                 {"classes", manifest_->classes().size()},
                 {"train_photos", photos},
                 {"val_photos", val_->size()},
                 {"features_of_earlier_jobs", spool_->shared()},
                 {"stores", stores_},
                 {"mode", name_of(spec_.mode)},
                 {"cut", transfer_.cut},
                 {"train_s", loop_->seconds()},
                 {"runs", runs_json()}};
  if (group_) result.update(group_->json());
  if (!spec_.why.empty()) result["why"] = spec_.why;
  return result;
}

JobOutcome FinetuneWork::finish() {
  if (training_->epoch() == 0) throw Error("no run had a photo to train on");
  const int64_t epochs = training_->epoch();
  loop_->restore_best();
  if (group_) {
    group_->end();
    group_->report(*run_directory_);
  }
  const ModelFile whole = write_models(context_.fs, *run_directory_, model_, transfer_,
                                       training_->model(), manifest_->classes());
  Evaluation e;
  if (val_->size() > 0) {
    e = training_->evaluate(*val_);
    if (!std::isfinite(e.loss)) {
      throw Error("the loss on the photos of validation is ", e.loss, ": nothing is published");
    }
    write_report(e);
  }
  const auto of_validation = [&](double x) { return val_->size() > 0 ? Json(x) : Json(); };
  Json result = result_json(e, epochs);
  result["model"] = whole.path;
  result["model_id"] = to_hex(whole.id());
  JobOutcome outcome;
  if (spec_.promote == Promote::kRule) {
    const Promotion p = by_rule(e);
    outcome.instead_of = p.instead_of;
    outcome.figures = p.figures;
    outcome.why = p.why;
    result["rule"] = p.why;
    if (p.production) result["production_top1"] = *p.production;
    if (p.chance) result["chance"] = *p.chance;
    progress_.say("promotion by rule: " + p.why);
  }
  outcome.result = json_text(result);
  if (spec_.publish) {
    const Digest head = context_.models.add_file(run_directory_->file("head.onnx")).or_throw();
    const Json metrics = {{"top1", of_validation(e.top1)},
                          {"top5", of_validation(e.top5)},
                          {"val_photos", val_->size()}};
    outcome.model = PublishedModel{.task = spec_.task,
                                   .content = whole.id(),
                                   .extractor = extractor_,
                                   .head = head,
                                   .classes = manifest_->classes(),
                                   .metrics = json_text(metrics),
                                   .photos = manifest_->digest()};
  }
  return outcome;
}

// A Tuner that was killed when it had published this job's version compares it with what was in
// force before, again.
Promotion FinetuneWork::by_rule(const Evaluation& e) {
  std::optional<PublishedModel> production = versions_.in_force(spec_.task);
  if (production && production->job == job_) production = versions_.find(production->parent);
  const ValidationRows on{.rows = *val_,
                          .classes = manifest_->classes(),
                          .row_types = row_types_,
                          .extractor = extractor_,
                          .fs = context_.fs,
                          .models = context_.models,
                          .device = device(),
                          .batch = spec_.trainer.batch};
  std::vector<bool> right;
  for (size_t i = 0; i < e.predicted.size(); ++i) {
    right.push_back(right_at(e, i, val_->labels()[i]));
  }
  return judge(production, right, on);
}

void FinetuneWork::write_report(const Evaluation& e) {
  run_directory_->write("confusion.csv", confusion_csv(manifest_->classes(), e.confusion));
  const std::string title = "job " + std::to_string(job_);
  ReportInput r{.title = title,
                .classes = manifest_->classes(),
                .epochs = run_directory_->epochs(),
                .best_epoch = loop_->best_epoch() + 1,
                .confusion = e.confusion};
  r.facts = {{"model", spec_.model.substr(0, 12)},
             {"photos", std::to_string(manifest_->size())},
             {"stores", std::to_string(stores_)},
             {"runs", std::to_string(spec_.runs)},
             {"mode", std::string(name_of(spec_.mode))},
             {"cut", transfer_.cut},
             {"validation top-1", fmt::format("{:.4f}", e.top1)},
             {"validation top-5", fmt::format("{:.4f}", e.top5)},
             {"validation macro F1", macro_f1_text(e.confusion)}};
  if (!spec_.why.empty()) r.facts.push_back({"why so", spec_.why});
  run_directory_->write("report.html", report_html(context_.fs, r));
}

}  // namespace ndtrain::tuner
