// What a fine-tuning ends with: its models, figures and report.
#include <fmt/format.h>

#include <cmath>

#include "framework/core/json.h"
#include "framework/train/class_quality.h"
#include "ndp/jobs/finetune_report.h"
#include "ndp/jobs/report.h"
#include "tuner/work/finetune_work.h"
#include "tuner/work/production_answers.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr size_t kNamedFalls = 20;  // classes that people are told of; the result has all

}  // namespace

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
                 {"views", spec_.views},
                 {"cut", transfer_.cut},
                 {"train_s", loop_->seconds()},
                 {"runs", runs_json()}};
  if (group_) result.update(group_->json());
  if (!spec_.why.empty()) result["why"] = spec_.why;
  return result;
}

JobOutcome FinetuneWork::finish() {
  if (training_->epoch() == 0) throw Error("no run had a photo to train on");
  const std::vector<PhotoClaim> people_say = human_labels_();  // first: it may be away, and again
  const int64_t epochs = training_->epoch();
  loop_->restore_best();
  if (group_) {
    group_->end();
    group_->report(*run_directory_);
  }
  Calibrated trained{.model = training_->model()};
  if (spec_.calibrate) {
    trained =
        calibrated(trained.model, *val_, row_types_, device(), spec_.trainer.batch, progress_);
  }
  const ModelFile whole = write_models(context_.fs, *run_directory_, model_, transfer_,
                                       trained.model, manifest_->classes());
  Evaluation e;
  if (val_->size() > 0) {
    e = training_->evaluate(*val_);
    if (!std::isfinite(e.loss)) {
      throw Error("the loss on the photos of validation is ", e.loss, ": nothing is published");
    }
  }
  const auto of_validation = [&](double x) { return val_->size() > 0 ? Json(x) : Json(); };
  Json result = result_json(e, epochs);
  result["model"] = whole.path;
  result["model_id"] = to_hex(whole.id());
  if (trained.temperature > 0) result["temperature"] = trained.temperature;
  Json metrics = {{"top1", of_validation(e.top1)},
                  {"top5", of_validation(e.top5)},
                  {"val_photos", val_->size()}};
  JobOutcome outcome;
  std::optional<Promotion> rule;
  if (spec_.promote == Promote::kRule) {
    rule = by_rule(e, people_say);
    outcome.instead_of = rule->instead_of;
    outcome.figures = rule->figures;
    outcome.why = rule->why;
    say_promotion(*rule, result, metrics);
  }
  if (val_->size() > 0) write_report(e, rule);
  outcome.result = json_text(result);
  if (spec_.publish) {
    const Digest head = context_.models.add_file(run_directory_->file("head.onnx")).or_throw();
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
Promotion FinetuneWork::by_rule(const Evaluation& e, const std::vector<PhotoClaim>& people_say) {
  const std::optional<PublishedModel> production = compared_with(versions_, job_, spec_.task);
  std::optional<Answers> theirs;
  if (production && production->head != production->extractor) {
    const AnswerRules rules{
        .models = context_.models, .device = device(), .batch = spec_.trainer.batch};
    theirs = production->extractor == extractor_
                 ? answers_of(*production, *spool_, val_->photos(), row_types_, rules)
                 : ProductionAnswers::outcome(context_.fs, directory_, *production);
  }
  return judge(production, answers_in(e, val_->photos(), manifest_->classes()), theirs,
               truths_of(*manifest_, people_say));
}

// To people, and into what is kept of the job and of its version.
void FinetuneWork::say_promotion(const Promotion& p, Json& result, Json& metrics) {
  progress_.say("promotion by rule: " + p.why);
  result["rule"] = p.why;
  if (!p.compared) return;
  const Comparison& c = *p.compared;
  Json falls = Json::array();
  for (const ClassFall& f : c.falls) {
    falls.push_back({{"class", f.name},
                     {"photos", f.photos},
                     {"before", f.before},
                     {"after", f.after},
                     {"chance", f.chance},
                     {"beyond_chance", f.beyond_chance()}});
  }
  for (const std::string& line : text_of(c.falls, kNamedFalls)) progress_.say(line);
  result["production_top1"] =
      static_cast<double>(c.production_right) / static_cast<double>(c.photos);
  result["chance"] = p.chance;
  result["compared_photos"] = c.photos;
  result["gained"] = c.gained;
  result["lost"] = c.lost;
  result["class_falls"] = falls;
  metrics["compared_with"] = compared_with(versions_, job_, spec_.task)->version;
  metrics["class_falls"] = std::move(falls);
}

void FinetuneWork::write_report(const Evaluation& e, const std::optional<Promotion>& rule) {
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
  if (rule) r.facts.push_back({"promotion by rule", rule->why});
  if (rule && rule->compared) {
    for (const std::string& line : text_of(rule->compared->falls, kNamedFalls)) {
      r.facts.push_back({"against what is in force", line});
    }
  }
  run_directory_->write("report.html", report_html(context_.fs, r));
}

}  // namespace ndtrain::tuner
