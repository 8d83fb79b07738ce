#include "cli/bench_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <sstream>

#include "cli/bench.h"
#include "cli/computing_args.h"
#include "cli/verb.h"
#include "framework/core/rng.h"
#include "framework/graph/arithmetic.h"
#include "framework/onnx/import.h"
#include "framework/passes/inference.h"
#include "framework/runtime/executor.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr int kFewest = 3;  // runs

// `n` alone: what it reads that is no weight comes from outside.
Graph alone(const Graph& g, const Node& n) {
  Graph one;
  std::vector<ValueId> in;
  std::map<ValueId, ValueId> seen;
  for (const ValueId v : n.inputs) {
    if (v == kNone) {
      in.push_back(kNone);
      continue;
    }
    auto [it, fresh] = seen.try_emplace(v, kNone);
    const Value& value = g.value(v);
    if (fresh) {
      it->second = !value.data.defined()                ? one.add_input(value.name, value.type)
                   : value.kind == ValueKind::kConstant ? one.add_constant(value.name, value.data)
                                                        : one.add_param(value.name, value.data);
    }
    in.push_back(it->second);
  }
  one.set_outputs(one.add(n.op, std::move(in), n.attrs, static_cast<int>(n.outputs.size())));
  return one;
}

// What makes two nodes the same work: their op, shapes, types and attributes.
std::string work_of(const Graph& g, const Node& n) {
  std::ostringstream os;
  os << n.op;
  for (const ValueId v : n.inputs) {
    os << ' ';
    if (v != kNone) os << g.type(v);
  }
  for (const auto& [name, attr] : n.attrs) {
    os << ' ' << name << '=';
    if (const auto* i = std::get_if<int64_t>(&attr)) os << *i;
    if (const auto* s = std::get_if<std::string>(&attr)) os << *s;
    if (const auto* list = std::get_if<Ints>(&attr)) os << Shape(*list);
  }
  return os.str();
}

// Seconds of the node itself, without what brings its inputs into place.
double time_alone(const Graph& g, const Device& device, double seconds) {
  const Plan plan(g, device);
  Executor executor(plan);
  executor.set_profiling(true);
  std::vector<Tensor> inputs;
  for (const ValueId v : plan.bindings()) inputs.push_back(random_tensor(plan.type(v), 1));
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int run = 0; run < kFewest || spent < seconds; ++run) {
    executor.run(inputs);
    for (const auto& t : executor.profile()) {
      spent += t.seconds;
      if (t.op == g.nodes()[0].op) best = std::min(best, t.seconds);
    }
  }
  return best;
}

std::string text_of(const Shape& s) {
  std::ostringstream os;
  os << s;
  return os.str();
}

std::string describe(const Graph& g, const Node& n) {
  const bool quantised = n.op == "FusedQLinearConv";
  return fmt::format("{} {} {}", n.op, text_of(g.shape(n.inputs[0])),
                     text_of(g.shape(n.inputs[quantised ? 3 : 1])));
}

}  // namespace

std::vector<Layer> time_layers(const Graph& g, const std::vector<const Device*>& devices,
                               double seconds) {
  std::vector<Layer> layers;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    const double operations = arithmetic(g, n);
    if (operations == 0) continue;
    const auto [it, fresh] = known.try_emplace(work_of(g, n), layers.size());
    if (fresh) {
      Layer& layer = layers.emplace_back();
      layer = {.node = i, .operations = operations, .seconds = 0, .fastest = ""};
      const Graph one = alone(g, n);
      for (const Device* d : devices) {
        const double s = time_alone(one, *d, seconds);
        if (!layer.fastest.empty() && s >= layer.seconds) continue;
        layer.seconds = s;
        layer.fastest = d->backend().name();
      }
    }
    ++layers[it->second].count;
  }
  return layers;
}

void declare_bench_layers(ArgsSpec& args) {
  args.flag("m,model", "the ONNX file (required)", "FILE");
  args.flag("b,batch", "batch size", "N", "16");
  args.flag("seconds", "for each layer and backend", "S", "0.2");
  declare_computing(args);
}

int run_bench_layers(Context& context, const Args& args) {
  const Model model = import_model(context.fs(), args.required("model"));
  const Graph g = inference_graph(model, args.integer("batch"));
  std::vector<std::unique_ptr<Device>> opened;
  std::vector<const Device*> devices = {&context.device()};
  for (const std::string& name : Backend::available()) {
    if (name == context.device().backend().name()) continue;
    opened.push_back(std::make_unique<Device>(Backend::find(name)));
    devices.push_back(opened.back().get());
  }
  std::vector<Layer> layers = time_layers(g, devices, args.number("seconds"));
  std::ranges::sort(layers, {}, [](const Layer& l) { return -l.seconds * l.count; });
  Json json = {{"layers", Json::array()}};
  double total = 0, operations = 0;
  std::string text =
      fmt::format("{:>6}{:>10}{:>9}  {:<8}{}\n", "count", "ms each", "GOP/s", "fastest", "layer");
  for (const Layer& l : layers) {
    const std::string what = describe(g, g.nodes()[l.node]);
    text += fmt::format("{:>6}{:>10.3f}{:>9.0f}  {:<8}{}\n", l.count, l.seconds * 1e3,
                        l.operations / l.seconds / 1e9, l.fastest, what);
    json["layers"].push_back({{"layer", what},
                              {"count", l.count},
                              {"ms", l.seconds * 1e3},
                              {"gops_per_s", l.operations / l.seconds / 1e9},
                              {"fastest", l.fastest}});
    total += l.seconds * l.count;
    operations += l.operations * l.count;
  }
  const auto batch = static_cast<double>(args.integer("batch"));
  json["bound_ms"] = total * 1e3;
  json["bound_images_per_s"] = batch / total;
  json["gops_per_s"] = operations / total / 1e9;
  text += fmt::format(
      "all layers at their fastest, nothing between them: {:.1f} ms, {:.1f} images/s, {:.0f} "
      "GOP/s\n",
      total * 1e3, batch / total, operations / total / 1e9);
  context.print(json, text);
  return kOk;
}

}  // namespace ndtrain::cli
