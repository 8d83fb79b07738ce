#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cli/bench.h"
#include "cli/bench_layers.h"
#include "cli/verb.h"
#include "framework/graph/inference.h"
#include "framework/graph/precision.h"
#include "framework/onnx/import.h"
#include "framework/runtime/device_tensor.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/product_rate.h"

namespace ndtrain::cli {
namespace {

struct OpTime {
  std::string op;
  int nodes = 0;
  double seconds = 0, operations = 0;
};

// What a graph computes, without its weights: a plan has its own.
struct Work {
  std::map<std::string, double> operations;  // by the name of what a node computes
  DType precision = DType::kF32;             // in which most of the sums are made
};

Work work_of(const Graph& g) {
  Work work;
  std::map<DType, double> operations;
  for (const Node& n : g.nodes()) {
    const double sums = work.operations[g.value(n.outputs[0]).name] = arithmetic(g, n);
    operations[g.type(n.inputs[0]).dtype] += sums;
  }
  work.precision =
      std::ranges::max_element(operations, {}, [](const auto& o) { return o.second; })->first;
  return work;
}

// Time by op, largest first.
std::vector<OpTime> by_op(Work& work, const std::vector<Executor::NodeTime>& times) {
  std::map<std::string, OpTime> ops;
  for (const auto& t : times) {
    OpTime& o = ops[t.op];
    o.op = t.op;
    ++o.nodes;
    o.seconds += t.seconds;
    if (t.op != "Reorder") o.operations += work.operations[t.name];
  }
  std::vector<OpTime> rows;
  for (const auto& [name, o] : ops) rows.push_back(o);
  std::ranges::sort(rows, std::greater(), &OpTime::seconds);
  return rows;
}

// `peak`: operations per second; 0 when it is not known.
std::string profile_table(const std::vector<OpTime>& rows, double peak) {
  double total = 0;
  for (const OpTime& o : rows) total += o.seconds;
  std::string out = fmt::format("{:<24}{:>8}{:>12}{:>8}{:>9}{:>9}\n", "op", "nodes", "ms", "share",
                                "GOP/s", "of peak");
  for (const OpTime& o : rows) {
    out += fmt::format("{:<24}{:>8}{:>12.3f}{:>7.1f}%", o.op, o.nodes, o.seconds * 1e3,
                       100 * o.seconds / total);
    const double rate = o.operations / o.seconds;
    if (rate > 0) out += fmt::format("{:>9.0f}", rate / 1e9);
    if (rate > 0 && peak > 0) out += fmt::format("{:>8.0f}%", 100 * rate / peak);
    out += "\n";
  }
  return out;
}

// The largest resident set of this process.
double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

// Random inputs and room for outputs, on the device: copies to it are not timed.
struct Resident {
  Resident(const Plan& plan, uint64_t seed) {
    for (ValueId v : plan.bindings()) {
      tensors.emplace_back(plan.device(), plan.type(v)).set(random_tensor(plan.type(v), seed));
      bindings.push_back(tensors.back().data());
    }
    for (ValueId v : plan.outputs()) {
      outputs.push_back(tensors.emplace_back(plan.device(), plan.type(v)).data());
    }
  }

  std::vector<DeviceTensor> tensors;
  std::vector<const void*> bindings;
  std::vector<void*> outputs;
};

Precision float_precision(const std::string& name) {
  const Precision p = precision_named(name);
  if (p == Precision::kInt8) {
    throw UsageError("--precision int8: give a file that ndtrain model quantize wrote");
  }
  return p;
}

}  // namespace

void declare_bench_forward(ArgsSpec& args) {
  args.flag("m,model", "the ONNX file (required)", "FILE");
  args.flag("b,batch", "batch size", "N", "1");
  args.flag("precision", "f32, bf16 or f16; default: what the model declares", "P");
  args.flag("seconds", "run for at least so long", "S", "5");
  args.flag("profile", "also print the time of each op, and its share of this machine's peak");
}

int run_bench_forward(Context& context, const Args& args) {
  const int64_t batch = args.integer("batch");
  Work work;
  const auto read = [&] {
    Model model = import_model(context.fs(), args.required("model"));
    if (args.has("precision")) declare_precision(model, float_precision(args.text("precision")));
    return inference_graph(model, batch);
  };
  const std::unique_ptr<const Plan> made = [&] {  // the weights go as they are packed
    const Graph g = read();
    work = work_of(g);
    return std::make_unique<const Plan>(g, context.device());
  }();
  const Plan& plan = *made;
  Executor executor(plan);
  const Resident data(plan, context.seed());
  const auto run = [&] { executor.run(data.bindings, data.outputs); };
  const std::vector<double> times = timed(args.number("seconds"), run);
  const double m = median(times);
  const Json json = {{"median_ms", m * 1e3},
                     {"min_ms", times.front() * 1e3},
                     {"max_ms", times.back() * 1e3},
                     {"images_per_s", static_cast<double>(batch) / m},
                     {"runs", times.size()},
                     {"batch", batch},
                     {"threads", shared_threads().threads()},
                     {"peak_mb", peak_mb()},
                     {"arena_mb", static_cast<double>(plan.arena_bytes()) / 1e6},
                     {"numerics", context.device().numerics()}};
  std::string text = table(json);
  if (args.on("profile")) {
    const double peak = product_rate(context.device(), work.precision);
    executor.set_profiling(true);
    run();
    text += "\n" + profile_table(by_op(work, executor.profile()), peak);
    text += fmt::format("of peak: of {:.0f} GOP/s, a pointwise convolution of 512 channels\n",
                        peak / 1e9);
  }
  context.print(json, text);
  return kOk;
}

}  // namespace ndtrain::cli
