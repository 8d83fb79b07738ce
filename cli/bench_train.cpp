#include "cli/bench.h"
#include "cli/computing_args.h"
#include "cli/head_args.h"
#include "cli/profile_table.h"
#include "cli/verb.h"
#include "framework/onnx/import.h"
#include "framework/train/compute.h"
#include "framework/train/head.h"
#include "framework/train/random_rows.h"
#include "framework/train/trainer.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_bench_train(ArgsSpec& args) {
  args.flag("m,model", "the ONNX file (required)", "FILE");
  args.flag("b,batch", "batch size", "N", "8");
  args.flag("freeze", "what is not trained, as for ndtrain train", "WHAT", "none");
  declare_compute(args);
  args.flag("seconds", "run for at least so long", "S", "5");
  args.flag("profile",
            "also the time of each op, and its share of this machine's peak; with --json of "
            "every node");
  declare_computing(args);
  declare_seed(args);
}

int run_bench_train(Context& context, const Args& args) {
  const Model model = import_model(context.fs(), args.required("model"));
  const int64_t batch = args.integer("batch");
  TensorDataset rows = random_rows(model, batch, context.seed());
  const TrainingCompute compute = training_compute(compute_of(args), context.device());
  if (!compute.why.empty()) context.progress().say(compute.why);
  TrainerConfig config{
      .epochs = 1 << 20, .batch = batch, .compute = compute.dtype, .seed = context.seed()};
  Trainer trainer(model, trainable_parameters(model, args.text("freeze")), context.device(),
                  config);
  EpochResult epoch;
  const std::vector<double> times =
      timed(args.number("seconds"), [&] { trainer.train_epoch(rows, epoch); });
  const double m = median(times);
  Json json = {{"median_ms", m * 1e3},
               {"min_ms", times.front() * 1e3},
               {"max_ms", times.back() * 1e3},
               {"images_per_s", static_cast<double>(batch) / m},
               {"steps", times.size()},
               {"batch", batch},
               {"compute", name_of(compute.dtype)},
               {"threads", shared_threads().threads()},
               {"trained_parameters", trainer.parameter_count()}};
  std::string text = table(json);
  if (args.on("profile")) {
    trainer.set_profiling(true);
    const NodeTimes nodes = median_profile(args.number("seconds"), [&] {
      trainer.train_epoch(rows, epoch);
      return trainer.profile();
    });
    text += "\n" + profile_table(nodes, context.device(), json);
  }
  context.print(json, text);
  return kOk;
}

}  // namespace ndtrain::cli
