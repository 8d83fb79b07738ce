#include <fmt/format.h>

#include <algorithm>

#include "cli/computing_args.h"
#include "cli/photo_args.h"
#include "cli/precision_args.h"
#include "cli/verb.h"
#include "framework/core/publish.h"
#include "ndp/jobs/evaluate_photos.h"
#include "ndp/jobs/report.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::vector<std::string> class_names(const ModelFile& model, const PhotoEvaluation& e) {
  std::vector<std::string> names;
  for (int64_t i = 0; i * i < static_cast<int64_t>(e.confusion.size()); ++i)
    names.push_back(model.class_name(i));
  return names;
}

Json number(std::optional<double> x) { return x ? Json(*x) : Json(); }

// Of all classes, in their order.
Json classes_json(const std::vector<std::string>& names, const std::vector<ClassQuality>& quality) {
  Json all = Json::array();
  for (size_t i = 0; i < names.size(); ++i) {
    const ClassQuality& c = quality[i];
    all.push_back({{"class", names[i]},
                   {"photos", c.rows},
                   {"precision", number(c.precision())},
                   {"recall", number(c.recall())},
                   {"f1", number(c.f1())}});
  }
  return all;
}

// Of those that photos are of, or are taken for; where these are many the ones with the least F1.
std::string classes_text(const Json& all) {
  constexpr size_t kLines = 30;
  std::vector<Json> some;
  for (const Json& c : all) {
    if (!c.at("f1").is_null()) some.push_back(c);
  }
  const size_t classes = some.size();
  if (classes > kLines) {
    std::ranges::stable_sort(some, {}, [](const Json& c) { return c.at("f1").get<double>(); });
    some.resize(kLines);
  }
  size_t width = 5;
  for (const Json& c : some) width = std::max(width, c.at("class").get<std::string>().size());
  std::string out = fmt::format("\n{:<{}}  photos  precision  recall      F1\n", "class", width);
  const auto share = [](const Json& x) {
    return x.is_null() ? std::string("-") : fmt::format("{:.4f}", x.get<double>());
  };
  for (const Json& c : some) {
    out += fmt::format("{:<{}}  {:>6}  {:>9}  {:>6}  {:>6}\n", c.at("class").get<std::string>(),
                       width, c.at("photos").get<int64_t>(), share(c.at("precision")),
                       share(c.at("recall")), share(c.at("f1")));
  }
  if (classes > kLines) {
    out += fmt::format("({} of {} classes, those with the least F1; --json has all)\n", kLines,
                       classes);
  }
  return out;
}

}  // namespace

void declare_eval(ArgsSpec& args) {
  args.positional("MODEL", "a run directory or an ONNX file");
  args.flag("data",
            "the photos: DIR/val if there is one, else DIR, with a directory per class unless "
            "--labels or --db says what they show (required)",
            "DIR");
  declare_label_flags(args);
  args.flag("b,batch", "the most photos at a time", "N", "32");
  args.flag("confusion", "a file for the confusion matrix", "CSV");
  args.flag("cache", "where the list of the photos is kept (default: ~/.cache/ndtrain)", "DIR");
  declare_precision_flags(args);
  declare_deterministic(args, /*features=*/false);
  declare_computing(args);
}

int run_eval(Context& context, const Args& args) {
  ModelFile model = load_model(context.fs(), args.required("MODEL"));
  context.progress().say(preprocess_note(model));
  const PhotoSet photos = labelled_photos(context, args, model);
  model = in_precision(model, precision_config(args, cache_directory(args)), photos,
                       context.device(), context.fs(), context.progress());
  const PhotoEvaluation e = evaluate_photos(model, context.device(), context.fs(), photos,
                                            args.integer("batch"), context.progress());
  if (args.has("confusion")) {
    publish(context.fs(), args.text("confusion"), confusion_csv(class_names(model, e), e.confusion))
        .or_throw();
  }
  const auto share = [&](double x) { return e.photos > 0 ? Json(x) : Json(); };
  if (e.photos == 0) context.progress().say("no photo was evaluated: there is no accuracy");
  const double rate = e.engine.wall_s > 0 ? static_cast<double>(e.photos) / e.engine.wall_s : 0;
  const std::vector<ClassQuality> quality = class_quality(e.confusion);
  Json json = {{"top1", share(e.top1)},
               {"top5", share(e.top5)},
               {"macro_f1", number(macro_f1(quality))},
               {"calibration_error", number(e.calibration.value())},
               {"photos", e.photos},
               {"quarantined", e.quarantined},
               {"skipped", e.skipped},
               {"images_per_s", rate}};
  if (args.has("db")) json["unlabelled"] = photos.unlabelled;
  const std::string scalars = table(json);
  const Json classes = classes_json(class_names(model, e), quality);
  json["classes"] = classes;
  context.print(json, scalars + (e.photos > 0 ? classes_text(classes) : ""));
  if (context.progress().interrupted()) return kInterrupted;
  return report_quarantine(e.bad);
}

}  // namespace ndtrain::cli
