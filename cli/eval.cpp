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
  Json json = {{"top1", share(e.top1)},        {"top5", share(e.top5)}, {"photos", e.photos},
               {"quarantined", e.quarantined}, {"skipped", e.skipped},  {"images_per_s", rate}};
  if (args.has("db")) json["unlabelled"] = photos.unlabelled;
  context.print(json, table(json));
  if (context.progress().interrupted()) return kInterrupted;
  return report_quarantine(e.bad);
}

}  // namespace ndtrain::cli
