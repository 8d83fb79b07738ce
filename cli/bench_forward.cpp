#include <sys/resource.h>

#include "cli/bench.h"
#include "cli/computing_args.h"
#include "cli/profile_table.h"
#include "cli/verb.h"
#include "framework/graph/precision.h"
#include "framework/onnx/import.h"
#include "framework/passes/inference.h"
#include "framework/runtime/device_tensor.h"
#include "framework/runtime/executor.h"

namespace ndtrain::cli {
namespace {

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
  args.flag("profile",
            "also the time of each op, and its share of this machine's peak; with --json of "
            "every node");
  declare_computing(args);
  declare_seed(args);
}

int run_bench_forward(Context& context, const Args& args) {
  const int64_t batch = args.integer("batch");
  const auto read = [&] {
    Model model = import_model(context.fs(), args.required("model"));
    if (args.has("precision")) declare_precision(model, float_precision(args.text("precision")));
    return inference_graph(model, batch);
  };
  const Plan plan(read(), context.device());
  Executor executor(plan);
  const Resident data(plan, context.seed());
  const auto run = [&] { executor.run(data.bindings, data.outputs); };
  const std::vector<double> times = timed(args.number("seconds"), run);
  const double m = median(times);
  Json json = {{"median_ms", m * 1e3},
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
    executor.set_profiling(true);
    const NodeTimes nodes = median_profile(args.number("seconds"), [&] {
      run();
      return executor.profile();
    });
    text += "\n" + profile_table(nodes, context.device(), json);
  }
  context.print(json, text);
  return kOk;
}

}  // namespace ndtrain::cli
