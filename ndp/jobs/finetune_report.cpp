#include "ndp/jobs/finetune_report.h"

#include <fmt/format.h>

#include "framework/core/log.h"
#include "framework/passes/inference.h"
#include "ndp/jobs/report.h"
#include "ndp/jobs/temperature.h"

namespace ndtrain::ndp {

std::string size_text(double bytes) {
  return bytes < 1e6 ? fmt::format("{:.1f} KB", bytes / 1e3)
                     : fmt::format("{:.1f} MB", bytes / 1e6);
}

void say_feature_sizes(const FinetuneResult& result, size_t rows, bool kept, Progress& progress) {
  const auto bytes = static_cast<double>(result.feature_bytes);
  progress.say(fmt::format("{} per photo cross the cut, {} in all; a photo has {}",
                           size_text(bytes), size_text(bytes * static_cast<double>(rows)),
                           size_text(result.mean_photo_bytes)));
  if (!kept || bytes <= result.mean_photo_bytes) return;
  log::warn(
      "the features are larger than the photos ({} against {}); --head linear or a later cut "
      "(ndtrain model inspect) makes them smaller",
      size_text(bytes), size_text(result.mean_photo_bytes));
}

Calibrated calibrated(const Model& trained, Dataset& val, const std::vector<TensorType>& row_types,
                      const Device& device, int64_t batch, Progress& progress) {
  if (val.size() == 0) {
    progress.say("there are no validation photos: probabilities stay as they are");
    return {.model = trained};
  }
  BatchPlans plans([&](int64_t b) { return inference_graph(trained, b, with_plain_logits); },
                   device, batch);
  const double temperature = fitted_temperature(plans, val, row_types);
  progress.say(
      fmt::format("the classifier is divided by a temperature of {:.3f}, which changes "
                  "no prediction, so that probabilities are what they seem",
                  temperature));
  return {.model = with_temperature(trained, temperature), .temperature = temperature};
}

void write_finetune_report(Fs& fs, RunDirectory& run, const FinetuneConfig& config,
                           const FinetuneResult& result, const TrainingPhotos& photos,
                           std::span<const size_t> val_rows, const Evaluation& e) {
  run.write("confusion.csv", confusion_csv(photos.set.classes, e.confusion));
  ReportInput report{.title = config.out,
                     .classes = photos.set.classes,
                     .epochs = run.epochs(),
                     .best_epoch = result.best_epoch,
                     .confusion = e.confusion};
  report.facts = {{"model", config.model},
                  {"data", config.data},
                  {"photos", fmt::format("{} to train, {} to validate", result.train_photos,
                                         result.val_photos)},
                  {"best epoch by", "validation " + name_of(config.best)},
                  {"validation top-1", fmt::format("{:.4f}", e.top1)},
                  {"validation top-5", fmt::format("{:.4f}", e.top5)},
                  {"validation macro F1", macro_f1_text(e.confusion)},
                  {"features per photo", size_text(static_cast<double>(result.feature_bytes))},
                  {"quarantined", std::to_string(result.quarantined)}};
  if (result.temperature > 0) {
    report.facts.push_back({"temperature", fmt::format("{:.3f}", result.temperature)});
  }
  for (size_t i = 0; i < val_rows.size(); ++i) {
    const Photo& p = photos.set.photos[val_rows[i]];
    report.photos.push_back(
        {photos.path(val_rows[i]), p.label, e.predicted[i], e.true_probability[i]});
  }
  run.write("report.html", report_html(fs, report));
}

}  // namespace ndtrain::ndp
