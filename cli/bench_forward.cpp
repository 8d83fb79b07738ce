#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/bench.h"
#include "cli/verb.h"
#include "framework/core/rng.h"
#include "framework/graph/inference.h"
#include "framework/onnx/import.h"
#include "framework/runtime/executor.h"

namespace ndtrain::cli {
namespace {

Tensor random_tensor(const TensorType& type, uint64_t seed) {
  const Rng rng(seed, "bench");
  std::vector<double> values(static_cast<size_t>(type.shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = rng.normal(i);
  return Tensor::from_doubles(type, values);
}

// Time by op, largest first.
std::string profile_table(const std::vector<Executor::NodeTime>& times) {
  std::map<std::string, std::pair<double, int>> by_op;
  double total = 0;
  for (const auto& t : times) {
    by_op[t.op].first += t.seconds;
    ++by_op[t.op].second;
    total += t.seconds;
  }
  std::vector<std::pair<std::string, std::pair<double, int>>> rows(by_op.begin(), by_op.end());
  std::ranges::sort(rows,
                    [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  std::string out = fmt::format("{:<24}{:>8}{:>12}{:>8}\n", "op", "nodes", "ms", "share");
  for (const auto& [op, t] : rows) {
    out += fmt::format("{:<24}{:>8}{:>12.3f}{:>7.1f}%\n", op, t.second, t.first * 1e3,
                       100 * t.first / total);
  }
  return out;
}

}  // namespace

void declare_bench_forward(ArgsSpec& args) {
  args.flag("m,model", "the ONNX file (required)", "FILE");
  args.flag("b,batch", "batch size", "N", "1");
  args.flag("seconds", "run for at least so long", "S", "5");
  args.flag("profile", "also print the time of each op");
}

int run_bench_forward(Context& context, const Args& args) {
  const Model model = import_model(context.fs(), args.required("model"));
  const int64_t batch = args.integer("batch");
  const Graph g = inference_graph(model, batch);
  const Plan plan(g, context.device());
  Executor executor(plan);
  std::vector<Tensor> inputs;
  for (ValueId v : plan.bindings()) inputs.push_back(random_tensor(plan.type(v), context.seed()));
  const std::vector<double> times = timed(args.number("seconds"), [&] { executor.run(inputs); });
  const double m = median(times);
  const Json json = {{"median_ms", m * 1e3},
                     {"min_ms", times.front() * 1e3},
                     {"max_ms", times.back() * 1e3},
                     {"images_per_s", static_cast<double>(batch) / m},
                     {"runs", times.size()},
                     {"batch", batch},
                     {"threads", shared_threads().threads()},
                     {"arena_mb", static_cast<double>(plan.arena_bytes()) / 1e6},
                     {"numerics", context.device().numerics()}};
  std::string text = table(json);
  if (args.on("profile")) {
    executor.set_profiling(true);
    executor.run(inputs);
    text += "\n" + profile_table(executor.profile());
  }
  context.print(json, text);
  return kOk;
}

}  // namespace ndtrain::cli
