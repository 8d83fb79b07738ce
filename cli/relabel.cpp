#include "ndp/jobs/relabel.h"

#include "cli/computing_args.h"
#include "cli/photo_args.h"
#include "cli/photo_fs.h"
#include "cli/precision_args.h"
#include "cli/verb.h"
#include "framework/core/log.h"
#include "ndp/labels/label_json.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_relabel(ArgsSpec& args) {
  declare_photos(args);
  args.flag("m,model", "a run directory or an ONNX file (required)", "MODEL");
  args.flag("db", "the label database, sqlite:FILE or postgresql://…; made if absent (required)",
            "URL");
  args.flag("collection", "collection the photos belong to", "NAME",
            std::string(kDefaultCollection));
  args.flag("task", "what the model tells apart: a task has classes of its own", "NAME",
            std::string(kDefaultTask));
  args.flag("root",
            "paths in the database are below it (default: below PHOTOS, where that is one "
            "directory; else as they are named)",
            "DIR");
  args.flag("k", "the N best classes of each photo are kept", "N", "5");
  args.flag("b,batch", "the most photos at a time", "N", "32");
  args.flag("keep-crops",
            "keep what the network sees of each photo in the cache, 150 KB each at 224 pixels: the "
            "next relabelling decodes nothing");
  args.flag("compress-crops", "the same, compressed without loss: about half of the bytes");
  args.flag("dry-run", "only say how many photos would be labelled");
  args.flag("cache",
            "where the list of the photos, and crops, are kept (default: ~/.cache/ndtrain)", "DIR");
  declare_precision_flags(args);
  declare_deterministic(args, /*features=*/false);
  declare_computing(args);
}

int run_relabel(Context& context, const Args& args) {
  RelabelConfig config;
  config.photos = named_photos(args);
  config.photos.root = args.text("root");
  config.collection = args.required("collection");
  config.task = args.required("task");
  config.cache = args.text("cache");
  config.k = args.integer("k");
  config.batch = args.integer("batch");
  config.compress_crops = args.on("compress-crops");
  config.keep_crops = args.on("keep-crops") || config.compress_crops;
  config.dry_run = args.on("dry-run");
  config.precision = precision_config(args, config.cache);
  const ModelFile model = load_model(context.fs(), args.required("model"));
  context.progress().say(preprocess_note(model));
  const auto db = open_label_db(args.required("db")).or_throw();
  const auto fs = photo_fs(context);
  const RelabelResult r =
      relabel(config, model, context.device(), *db, *fs, context.clock(), context.progress());
  const double rate =
      r.engine.wall_s > 0 ? static_cast<double>(r.engine.photos) / r.engine.wall_s : 0;
  Json json = {{"photos", r.photos},
               {config.dry_run ? "to_label" : "labelled", r.labelled},
               {"already_labelled", r.already},
               {"quarantined", r.quarantined.size()},
               {"skipped", r.skipped}};
  json.update(version_json(r.version.number, r.version.content));
  json.update(
      {{"from_crops", r.engine.crops}, {"cache_bytes", r.cache_bytes}, {"images_per_s", rate}});
  context.print(json, table(json));
  if (r.interrupted) {
    log::warn("stopped; the same command goes on");
    return kInterrupted;
  }
  return report_quarantine(r.quarantined);
}

}  // namespace ndtrain::cli
