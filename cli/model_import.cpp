#include <sstream>

#include "cli/dim_args.h"
#include "cli/input_args.h"
#include "cli/opset_args.h"
#include "cli/verb.h"
#include "framework/core/distinct_names.h"
#include "framework/core/log.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::array<float, 3> three(const Args& args, const std::string& name) {
  std::array<float, 3> v{};
  std::istringstream in(args.text(name));
  std::string part;
  for (float& x : v) {
    if (!std::getline(in, part, ','))
      throw UsageError("--" + name + " takes three numbers: 0.485,0.456,0.406");
    try {
      x = std::stof(part);
    } catch (const std::exception&) {
      throw UsageError("--" + name + " " + args.text(name) + ": not three numbers");
    }
  }
  return v;
}

std::vector<std::string> lines(Fs& fs, const std::string& path) {
  std::istringstream in(fs.read(path).or_throw());
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) out.push_back(line);
  }
  return out;
}

void declare_preprocessing(const Args& args, Preprocess& p) {
  if (args.has("img-size")) {
    p.img_size = static_cast<int>(args.integer("img-size"));
    p.resize = resize_for_crop_pct(p.img_size, 0.875);
  }
  if (args.has("crop-pct")) p.resize = resize_for_crop_pct(p.img_size, args.number("crop-pct"));
  if (args.has("resize")) p.resize = static_cast<int>(args.integer("resize"));
  if (args.has("interpolation")) {
    const std::string name = args.text("interpolation");
    if (name != "bilinear" && name != "bicubic")
      throw UsageError("--interpolation: there are bilinear and bicubic");
    p.interpolation = name == "bicubic" ? Interpolation::kBicubic : Interpolation::kBilinear;
  }
  if (args.has("layout")) {
    const std::string name = args.text("layout");
    if (name != "nchw" && name != "nhwc") throw UsageError("--layout: there are nchw and nhwc");
    p.layout = name == "nhwc" ? Layout::kNhwc : Layout::kNchw;
  }
  if (args.has("mean")) p.mean = three(args, "mean");
  if (args.has("std")) p.std = three(args, "std");
  validate(p);
}

ImportOptions import_options(const Args& args) {
  ImportOptions options{
      .external_data = args.on("external-data"), .dims = dims_of(args), .inputs = inputs_of(args)};
  if (args.has("img-size")) {
    options.image_side = [side = args.integer("img-size")](const auto&) { return side; };
  }
  return options;
}

// Photos are made squares of one size: a model of images must take them.
void check_side(const ModelFile& file) {
  if (file.model.inputs.size() != 1 || file.model.inputs[0].dims.size() != 4) return;
  const ModelInput& in = file.model.inputs[0];
  const bool last = file.preprocess.layout == Layout::kNhwc;
  const int64_t channels = in.dims[last ? 3 : 1];
  const int64_t height = in.dims[last ? 1 : 2], width = in.dims[last ? 2 : 3];
  if (channels != 3 || (height == file.preprocess.img_size && width == height)) return;
  throw Error("input '", in.name, "' takes images of ", height, " x ", width,
              ", but photos are made ", file.preprocess.img_size, " x ", file.preprocess.img_size,
              ": --img-size, and --dim where these are symbolic, must agree");
}

// As the file lists them, but told apart.
std::vector<std::string> class_names(Fs& fs, const std::string& path, int64_t outputs) {
  std::vector<std::string> names = lines(fs, path);
  if (static_cast<int64_t>(names.size()) != outputs) {
    throw Error(path, " has ", names.size(), " names but the model has ", outputs, " classes");
  }
  const std::vector<Renamed> renamed = make_distinct(names);
  if (!renamed.empty()) log::warn("{}: {}", path, describe(renamed));
  return names;
}

}  // namespace

void declare_model_import(ArgsSpec& args) {
  args.positional("FILE", "the foreign ONNX file");
  args.flag("o,out", "the file to write (required)", "FILE");
  args.flag("img-size", "side of the square input (default: the model's, else 224)", "N");
  args.flag("resize", "length of the shorter side before cropping (default: --img-size / 0.875)",
            "N");
  args.flag("crop-pct", "instead of --resize: img-size as a share of it", "X");
  args.flag("interpolation", "bilinear or bicubic (default: bilinear)", "NAME");
  args.flag("mean", "three numbers, for pixels in 0 to 1 (default: ImageNet's)", "R,G,B");
  args.flag("std", "three numbers, for pixels in 0 to 1 (default: ImageNet's)", "R,G,B");
  args.flag("layout", "nchw or nhwc (default: as the input's shape is)", "NAME");
  args.flag("classes", "a file of class names, one per line", "FILE");
  declare_opset(args);
  declare_dims(args);
  declare_inputs(args);
  args.flag("external-data",
            "let the model read weights from any file in its directory, not FILE.data alone");
}

int run_model_import(Context& context, const Args& args) {
  ModelFile file = load_model(context.fs(), args.required("FILE"), import_options(args));
  const std::string out = args.required("out");
  declare_preprocessing(args, file.preprocess);
  file.preprocess_declared = true;
  if (file.side_from_preprocess) context.progress().say(preprocess_note(file));
  check_side(file);
  if (args.has("classes")) {
    file.classes = class_names(context.fs(), args.text("classes"), file.outputs());
  }
  save_model(context.fs(), out, file, export_options(args));
  const Json json = {{"file", out},
                     {"id", to_hex(file.id())},
                     {"classes", file.classes.size()},
                     {"preprocessing", describe(file.preprocess)}};
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
