#include "cli/verb.h"
#include "ndp/jobs/transfer.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_model_split(ArgsSpec& args) {
  args.positional("FILE", "the ONNX file or run directory");
  args.flag("freeze", "where to cut: auto, NAME or N, as for ndtrain train", "WHAT", "auto");
  args.flag("feature-dtype", "f16 or f32: what crosses the cut", "TYPE", "f32");
  args.flag("o,out", "the directory for extractor.onnx and head.onnx (required)", "DIR");
}

int run_model_split(Context& context, const Args& args) {
  ModelFile file = load_model(context.fs(), args.required("FILE"));
  const std::string out = args.required("out");
  const DType dtype = dtype_named(args.text("feature-dtype"));
  if (dtype != DType::kF16 && dtype != DType::kF32)
    throw UsageError("--feature-dtype: there are f16 and f32");
  const TransferModel t =
      prepare_transfer(file, file.classes, "keep", args.text("freeze"), dtype, context.seed());
  if (t.features.empty())
    throw Error("--freeze ", args.text("freeze"), ": nothing is frozen, so there is no cut");
  context.fs().make_directories(out).or_throw();
  ModelFile part = file;
  part.model = t.extractor;
  part.classes.clear();
  save_model(context.fs(), join(out, "extractor.onnx"), part);
  part.model = t.head;
  part.classes = file.classes;
  save_model(context.fs(), join(out, "head.onnx"), part);
  const Json json = {{"extractor", join(out, "extractor.onnx")},
                     {"head", join(out, "head.onnx")},
                     {"features", t.features},
                     {"extractor_id", to_hex(t.extractor_id)}};
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
