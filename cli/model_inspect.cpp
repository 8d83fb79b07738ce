#include <fmt/format.h>

#include <map>
#include <sstream>

#include "cli/verb.h"
#include "framework/graph/cuts.h"
#include "framework/graph/op.h"
#include "framework/train/head.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// Multiply-adds count two.
double flops(const Graph& g, const Node& n) {
  const OpDef& def = find_op(n.op);
  std::vector<TensorType> in;
  for (ValueId v : n.inputs) in.push_back(v == kNone ? TensorType{DType::kNone, {}} : g.type(v));
  const auto elements = static_cast<double>(g.shape(n.outputs[0]).count());
  return elements * (def.terms ? 2.0 * static_cast<double>(def.terms(n.attrs, in)) : 1.0);
}

std::string counted(double n) {
  if (n >= 1e9) return fmt::format("{:.2f} G", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.2f} M", n / 1e6);
  if (n >= 1e3) return fmt::format("{:.1f} K", n / 1e3);
  return fmt::format("{:.0f}", n);
}

std::string cut_table(const Graph& g, const std::vector<Cut>& cuts, int64_t photo_bytes) {
  size_t width = 10;
  for (const Cut& c : cuts) width = std::max(width, g.value(c.feature).name.size());
  std::string out = fmt::format("{:<{}}  {:>18}  {:>12}  {:>12}  {:>14}\n", "cut (value)", width,
                                "shape", "f16 bytes", "f32 bytes", "params behind");
  for (const Cut& c : cuts) {
    std::ostringstream shape;
    shape << g.shape(c.feature);
    out +=
        fmt::format("{:<{}}  {:>18}  {:>12}  {:>12}  {:>14}{}\n", g.value(c.feature).name, width,
                    shape.str(), 2 * c.elements, 4 * c.elements, c.params_behind,
                    photo_bytes > 0 && 2 * c.elements > photo_bytes ? "  larger than a photo" : "");
  }
  return out;
}

}  // namespace

void declare_model_inspect(ArgsSpec& args) {
  args.positional("FILE", "the ONNX file or run directory");
  args.flag("photo-bytes", "mean size of a photo, to compare cuts with, e.g. 100K", "BYTES");
  args.flag("external-data",
            "let the model read weights from any file in its directory, not FILE.data alone");
}

int run_model_inspect(Context& context, const Args& args) {
  const ModelFile file =
      load_model(context.fs(), args.required("FILE"), {.external_data = args.on("external-data")});
  context.progress().say(preprocess_note(file));
  const Graph g = bind(file.model, 1);
  std::map<std::string, int64_t> ops;
  double total_flops = 0;
  for (const Node& n : g.nodes()) {
    ++ops[n.op];
    total_flops += flops(g, n);
  }
  int64_t params = 0;
  for (ValueId v : g.params()) params += g.shape(v).count();
  const std::vector<Cut> cuts = legal_cuts(g);

  Json json = {{"file", file.path},
               {"id", to_hex(file.id())},
               {"parameters", params},
               {"flops", total_flops},
               {"nodes", g.nodes().size()},
               {"classes", file.classes.size()},
               {"preprocessing", describe(file.preprocess)}};
  std::ostringstream input;
  for (ValueId v : g.inputs()) input << g.value(v).name << " " << g.type(v) << " ";
  std::string text = fmt::format(
      "id          {}\ninput       {}\nparameters  {}\nFLOPs       {} per photo\nops         ",
      to_hex(file.id()), input.str(), params, counted(total_flops));
  for (const auto& [op, n] : ops) {
    json["ops"][op] = n;
    text += fmt::format("{} {}  ", op, n);
  }
  for (const Cut& c : cuts) {
    json["cuts"].push_back({{"value", g.value(c.feature).name},
                            {"shape", g.shape(c.feature).dims()},
                            {"f16_bytes", 2 * c.elements},
                            {"f32_bytes", 4 * c.elements},
                            {"params_behind", c.params_behind}});
  }
  text += "\n\n" + cut_table(g, cuts, static_cast<int64_t>(args.bytes("photo-bytes")));
  context.print(json, text);
  return kOk;
}

}  // namespace ndtrain::cli
