#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cli/computing_args.h"
#include "cli/head_args.h"
#include "cli/verb.h"
#include "framework/onnx/import.h"
#include "framework/passes/inference.h"
#include "framework/runtime/plan.h"
#include "framework/train/compute.h"
#include "framework/train/head.h"
#include "framework/train/trainer.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr const char* kDefaultFile = "tuning.txt";

// What the models' plans chose, a layer once; what is measured is counted.
class Choices {
 public:
  explicit Choices(Progress& progress) : progress_(progress) {}

  void add(const TunedLayer& l) {
    TunedLayer& kept = layers_.try_emplace(l.layer, l).first->second;
    if (l.chosen_seconds == 0) return;
    kept = l;
    progress_.update(++measured_, l.layer);
  }
  const std::map<std::string, TunedLayer>& layers() const { return layers_; }
  int64_t measured() const { return measured_; }
  int64_t against_rule() const {
    return std::ranges::count_if(layers_,
                                 [](const auto& l) { return l.second.chosen != l.second.rule; });
  }

 private:
  Progress& progress_;
  std::map<std::string, TunedLayer> layers_;
  int64_t measured_ = 0;
};

// Plans are all that is needed: they choose.
void plan(const Model& model, const Device& device, const Args& args, DType compute) {
  const int64_t batch = args.integer("batch");
  const Plan inference(inference_graph(model, batch), device);
  if (!args.has("freeze")) return;
  Trainer trainer(model, trainable_parameters(model, args.text("freeze")), device,
                  {.batch = batch, .compute = compute});
  trainer.prepare(batch, 0);
}

std::string milliseconds(double seconds) {
  return seconds > 0 ? fmt::format("{:.3f}", seconds * 1e3) : "-";
}

Json json_of(const Choices& choices) {
  Json list = Json::array();
  for (const auto& [name, l] : choices.layers()) {
    Json& row = list.emplace_back(Json{{"layer", name}, {"rule", l.rule}, {"chosen", l.chosen}});
    if (l.rule_seconds > 0) row["rule_ms"] = l.rule_seconds * 1e3;
    if (l.chosen_seconds > 0) row["chosen_ms"] = l.chosen_seconds * 1e3;
  }
  return list;
}

std::string text_of(const Choices& choices) {
  size_t layer = 5, rule = 4, chosen = 6;
  for (const auto& [name, l] : choices.layers()) {
    layer = std::max(layer, name.size());
    rule = std::max(rule, l.rule.size());
    chosen = std::max(chosen, l.chosen.size());
  }
  std::string text;
  const auto line = [&](const std::string& name, const TunedLayer& l, const std::string& rule_ms,
                        const std::string& chosen_ms) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>9}  {:>9}\n", name, layer, l.rule, rule,
                        l.chosen, chosen, rule_ms, chosen_ms);
  };
  line("layer", {.layer = "", .chosen = "chosen", .rule = "rule"}, "rule ms", "chosen ms");
  for (const auto& [name, l] : choices.layers()) {
    line(name, l, milliseconds(l.rule_seconds), milliseconds(l.chosen_seconds));
  }
  return text;
}

}  // namespace

void declare_tune(ArgsSpec& args) {
  args.flag("m,model", "an ONNX file; of several, each with an -m (required)", "FILE");
  args.flag("b,batch", "rows of a step, of inference and of training", "N", "32");
  args.flag("freeze",
            "also the layers of a training step that trains the rest, as for ndtrain train",
            "WHAT");
  declare_compute(args);
  declare_computing(args);
}

int run_tune(Context& context, const Args& args) {
  const std::vector<std::string> models = args.list("model");
  if (models.empty()) throw UsageError("--model is missing");
  if (args.integer("batch") < 1) throw UsageError("--batch " + args.text("batch") + ": at least 1");
  const Backend& backend = Backend::find(context.device_name());
  DeviceOptions options = context.device_options();
  if (options.tuning_file.empty()) options.tuning_file = kDefaultFile;
  Choices choices(context.progress());
  {
    DeviceOptions measuring = options;
    measuring.on_choice = [&](const TunedLayer& l) { choices.add(l); };
    const Device device(backend, measuring);
    const TrainingCompute compute = training_compute(compute_of(args), device);
    if (!compute.why.empty()) context.progress().say(compute.why);
    context.progress().begin("measuring for " + options.tuning_file, 0, "layers");
    for (const std::string& file : models) {
      if (context.progress().interrupted()) return kInterrupted;
      plan(import_model(context.fs(), file), device, args, compute.dtype);
    }
    context.progress().end();
  }
  if (choices.layers().empty()) {
    throw Error("no layer of these models has a choice of algorithm on ", backend.name(), " here");
  }
  const Device tuned(backend, options);
  const auto layers = static_cast<int64_t>(choices.layers().size());
  const Json json = {{"tuning", options.tuning_file},          {"device", tuned.description()},
                     {"numerics", tuned.numerics()},           {"measured", choices.measured()},
                     {"against_rule", choices.against_rule()}, {"layers", json_of(choices)}};
  context.print(json,
                fmt::format("{}{} layers, {} measured now, {} against the rule\n"
                            "{}\nto use it: --tuning {}\n",
                            text_of(choices), layers, choices.measured(), choices.against_rule(),
                            tuned.description(), options.tuning_file));
  return kOk;
}

}  // namespace ndtrain::cli
