#include "cli/model_precision.h"

#include "cli/computing_args.h"
#include "cli/opset_args.h"
#include "cli/photo_args.h"
#include "cli/photo_fs.h"
#include "cli/precision_args.h"
#include "framework/onnx/metadata.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

PhotoSet photos_without_labels(Context& context, const Args& args) {
  const std::string root = args.required("data");
  refuse_object_stores({root});
  const auto catalogue = open_catalogue(context.fs(), cache_directory(args), root);
  return all_photos(context.fs(), *catalogue, root, context.progress());
}

// With labels where somebody or the directories say what the photos show.
PhotoSet compared_set(Context& context, const Args& args, const ModelFile& model) {
  if (args.has("labels") || args.has("db")) return labelled_photos(context, args, model);
  if (!model.classes.empty()) {
    try {
      return labelled_photos(context, args, model);
    } catch (const Error& e) {
      context.progress().say(std::string("no labels: ") + e.what());
    }
  }
  return photos_without_labels(context, args);
}

std::string name_of(PrecisionVerdict v) {
  if (v == PrecisionVerdict::kAccepted) return "accepted";
  return v == PrecisionVerdict::kTooFew ? "too few photos" : "refused";
}

Json to_json(const PrecisionCheck& c, double max_drop) {
  return {{"photos", c.photos},          {"labelled", c.labelled},
          {"agreement", c.agreement()},  {"cosine", c.cosine()},
          {"drop_points", c.drop()},     {"drop_bound_points", c.drop_bound()},
          {"max_drop_points", max_drop}, {"verdict", name_of(judge(c, max_drop))}};
}

}  // namespace

int verify_precision(Context& context, const Args& args) {
  const ModelFile file =
      load_model(context.fs(), args.required("FILE"), {.external_data = args.on("external-data")});
  const ModelFile f32 = args.has("against") ? load_model(context.fs(), args.text("against")) : file;
  const PrecisionConfig config = precision_config(args, "");
  std::string why;
  const Precision p = chosen_precision(config.precision, context.device(), why);
  if (!why.empty()) context.progress().say("precision " + why);
  const PhotoSet set = compared_set(context, args, f32);
  if (declared_precision(file.model) == Precision::kInt8 && !args.has("against")) {
    throw Error(file.path, ": is quantised already; say with --against what from");
  }
  const int64_t photos = args.integer("photos");
  const PhotoSample sample = sample_of(set, sample_size(photos), f32.preprocess, context.fs());
  const Model low = lowered(file.model, p, precision_until(file.model), sample, context.device(),
                            context.progress());
  const PrecisionCheck c = compare_precision(f32.model, low, features_of(f32.model), sample, photos,
                                             context.device(), context.progress());
  context.progress().say(describe(c, config.max_drop));
  Json json = to_json(c, config.max_drop);
  json["precision"] = std::string(ndtrain::name_of(p));
  context.print(json, table(json));
  if (context.progress().interrupted()) return kInterrupted;
  return judge(c, config.max_drop) == PrecisionVerdict::kRefused ? kFailed : kOk;
}

void declare_model_quantize(ArgsSpec& args) {
  args.positional("FILE", "the ONNX file, in f32");
  args.flag("o,out", "the file to write (required)", "FILE");
  args.flag("data", "photos like those to come; scales are measured on some of them", "DIR");
  args.flag("precision", "int8; or bf16 or f16, which need no photos and are only declared", "NAME",
            "int8");
  args.flag("classifier",
            "the classifier too: for a model that nobody will train further (default: f32 from "
            "there on)");
  declare_opset(args);
  args.flag("external-data",
            "let the model read weights from any file in its directory, not FILE.data alone");
  args.flag("cache", "where the list of the photos is kept (default: ~/.cache/ndtrain)", "DIR");
  declare_computing(args);
  declare_seed(args);
}

int run_model_quantize(Context& context, const Args& args) {
  ModelFile file =
      load_model(context.fs(), args.required("FILE"), {.external_data = args.on("external-data")});
  const std::string out = args.required("out");
  const Precision p = precision_named(args.text("precision"));
  std::vector<std::string> until;
  if (!args.on("classifier")) until = features_of(file.model);
  PhotoSet set;
  if (p == Precision::kInt8) set = photos_without_labels(context, args);
  const Digest parent = file.id();
  file.model = lowered(file.model, p, until,
                       sample_of(set, kCalibrationPhotos, file.preprocess, context.fs()),
                       context.device(), context.progress());
  metadata::set_digest(file.model, metadata::kParent, parent);
  file.preprocess_declared = true;
  save_model(context.fs(), out, file, export_options(args));
  const Json json = {
      {"file", out}, {"id", to_hex(file.id())}, {"precision", std::string(ndtrain::name_of(p))}};
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
