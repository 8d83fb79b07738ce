#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/computing_args.h"
#include "cli/opset_args.h"
#include "cli/verb.h"
#include "framework/pipeline/planner/stage_models.h"
#include "framework/train/head.h"
#include "framework/train/step_nodes.h"
#include "ndp/jobs/transfer.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// As `ndtrain profile` has the nodes of such a model.
std::vector<std::string> nodes_of(const Model& model, const std::string& freeze) {
  constexpr int64_t kRows = 2;
  return step_nodes(make_step_graph(bind(model, kRows), trainable_parameters(model, freeze), 0))
      .names;
}

int split_into_stages(Context& context, const Args& args, const ModelFile& file) {
  if (args.given("feature-dtype")) {
    throw UsageError(
        "--feature-dtype is of the cut at --freeze: what goes between stages is as it is");
  }
  const PipelinePlan plan = load_pipeline_plan(context.fs(), args.text("stages"));
  const std::string freeze = args.given("freeze") ? args.text("freeze") : "none";
  const std::string out = args.required("out");
  const std::vector<Model> models = stage_models(file.model, plan, nodes_of(file.model, freeze));
  context.fs().make_directories(out).or_throw();
  Json json = {{"stages", Json::array()}};
  std::string text;
  ModelFile part = file;
  for (size_t s = 0; s < models.size(); ++s) {
    part.model = models[s];
    part.classes = s + 1 == models.size() ? file.classes : std::vector<std::string>();
    const std::string path = join(out, "stage" + std::to_string(s) + ".onnx");
    save_model(context.fs(), path, part, export_options(args));
    std::vector<std::string> inputs;
    for (const ModelInput& in : part.model.inputs) inputs.push_back(in.name);
    text += fmt::format("{}: {} -> {}\n", path, fmt::join(inputs, ", "),
                        fmt::join(part.model.outputs, ", "));
    json["stages"].push_back({{"file", path}, {"inputs", inputs}, {"outputs", part.model.outputs}});
  }
  context.print(json, text);
  return kOk;
}

}  // namespace

void declare_model_split(ArgsSpec& args) {
  args.positional("FILE", "the ONNX file or run directory");
  args.flag("freeze",
            "where to cut: auto, NAME or N, as for ndtrain train; with --stages what the plan's "
            "profile was measured with (default there: none)",
            "WHAT", "auto");
  args.flag("stages", "write stage0.onnx and so on of this plan of ndtrain plan train instead",
            "PLAN");
  args.flag("feature-dtype", "f16 or f32: what crosses the cut", "TYPE", "f32");
  args.flag("o,out", "the directory for extractor.onnx and head.onnx, or the stages (required)",
            "DIR");
  declare_opset(args);
  declare_seed(args);
}

int run_model_split(Context& context, const Args& args) {
  ModelFile file = load_model(context.fs(), args.required("FILE"));
  if (args.has("stages")) return split_into_stages(context, args, file);
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
  save_model(context.fs(), join(out, "extractor.onnx"), part, export_options(args));
  part.model = t.head;
  part.classes = file.classes;
  save_model(context.fs(), join(out, "head.onnx"), part, export_options(args));
  const Json json = {{"extractor", join(out, "extractor.onnx")},
                     {"head", join(out, "head.onnx")},
                     {"features", t.features},
                     {"extractor_id", to_hex(t.extractor_id)}};
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
