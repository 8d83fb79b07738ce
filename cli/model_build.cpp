#include <fmt/format.h>

#include "cli/computing_args.h"
#include "cli/opset_args.h"
#include "cli/suggest.h"
#include "cli/verb.h"
#include "models/zoo.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr double kCropShare = 0.875;  // 224 of 256, as these architectures are evaluated

const ZooEntry& entry_called(std::string_view name) {
  if (const ZooEntry* entry = find_in_zoo(name)) return *entry;
  std::vector<std::string> names;
  std::string list;
  for (const ZooEntry& e : zoo()) {
    names.emplace_back(e.name);
    list += fmt::format("\n  {:<18}{}", e.name, e.summary);
  }
  const std::string near = nearest(name, names);
  throw UsageError("there is no architecture " + std::string(name) +
                   (near.empty() ? "" : "; did you mean " + near + "?") + " There are" + list);
}

}  // namespace

void declare_model_build(ArgsSpec& args) {
  std::string names;
  for (const ZooEntry& e : zoo()) names += (names.empty() ? "" : ", ") + std::string(e.name);
  args.positional("NAME", names);
  args.flag("o,out", "the file to write (required)", "FILE");
  args.flag("classes", "outputs of the classifier", "N", "1000");
  args.flag("img-size", "side of the square input (default: the architecture's)", "N");
  args.flag("patch", "vit: side of a patch", "N", "16");
  args.flag("depth", "vit: layers", "N", "4");
  args.flag("width", "vit: features of a token", "N", "192");
  args.flag("heads", "vit: attention heads", "N", "3");
  declare_opset(args);
  declare_seed(args);
}

int run_model_build(Context& context, const Args& args) {
  const ZooEntry& entry = entry_called(args.required("NAME"));
  const std::string out = args.required("out");
  ZooOptions options{.classes = args.integer("classes"), .seed = context.seed()};
  options.vit = {args.integer("patch"), args.integer("depth"), args.integer("width"),
                 args.integer("heads")};
  const int64_t img_size = args.has("img-size") ? args.integer("img-size") : entry.img_size;
  options.img_size = img_size;

  ModelFile file{.path = out, .model = build_model(entry.name, options)};
  file.preprocess.img_size = static_cast<int>(img_size);
  file.preprocess.resize = resize_for_crop_pct(file.preprocess.img_size, kCropShare);
  file.preprocess_declared = true;
  save_model(context.fs(), out, file, export_options(args));
  const Json json = {{"file", out},
                     {"id", to_hex(file.id())},
                     {"parameters", parameter_count(file.model)},
                     {"preprocessing", describe(file.preprocess)}};
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
