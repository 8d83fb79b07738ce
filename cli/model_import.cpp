#include <sstream>

#include "cli/verb.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::cli {
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
  args.flag("external-data", "let the model read weights from other files in its directory");
}

int run_model_import(Context& context, const Args& args) {
  ModelFile file = load_model(context.fs(), args.required("FILE"), args.on("external-data"));
  const std::string out = args.required("out");
  declare_preprocessing(args, file.preprocess);
  file.preprocess_declared = true;
  if (args.has("classes")) {
    file.classes = lines(context.fs(), args.text("classes"));
    if (static_cast<int64_t>(file.classes.size()) != file.outputs()) {
      throw Error(args.text("classes"), " has ", file.classes.size(), " names but the model has ",
                  file.outputs(), " classes");
    }
  }
  save_model(context.fs(), out, file);
  const Json json = {{"file", out},
                     {"id", to_hex(file.id())},
                     {"classes", file.classes.size()},
                     {"preprocessing", describe(file.preprocess)}};
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
