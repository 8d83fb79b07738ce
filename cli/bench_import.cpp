#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "ndp/sandbox/model_sandbox.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_bench_import(ArgsSpec& args) {
  args.flag("m,model", "an ONNX file (required)", "FILE");
  args.flag("sandbox",
            "in turns with a role's way, which is to try it in a process of its own first");
  args.flag("seconds", "run for at least so long", "S", "5");
}

int run_bench_import(Context& context, const Args& args) {
  const std::string path = args.required("model");
  const std::string file = context.fs().read(path, limits::kModelFile).or_throw();
  std::unique_ptr<ModelSandbox> sandbox;
  if (args.on("sandbox")) sandbox = std::make_unique<ModelSandbox>(ModelSandbox::Config());
  std::vector<double> without, within, ratios;
  const auto seconds_of = [&](ModelCheck* check) {
    // Another each time, or the sandbox would remember its answer.
    const Digest digest = sha256(std::to_string(without.size()));
    const auto start = std::chrono::steady_clock::now();
    (void)checked_model(file, digest, path, check);
    return seconds_since(start);
  };
  timed(args.number("seconds"), [&] {
    without.push_back(seconds_of(nullptr));
    if (!sandbox) return;
    within.push_back(seconds_of(sandbox.get()));
    ratios.push_back(within.back() / without.back());
  });
  for (std::vector<double>* v : {&without, &within, &ratios}) std::ranges::sort(*v);
  Json json = {
      {"bytes", file.size()}, {"median_ms", median(without) * 1e3}, {"rounds", without.size()}};
  if (sandbox) {
    json["sandbox"] = {{"median_ms", median(within) * 1e3},
                       {"ratio", median(ratios)},
                       {"missing", sandbox->missing()}};
  }
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
