#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/computing_args.h"
#include "cli/head_args.h"
#include "cli/photo_fs.h"
#include "cli/profile_convergence.h"
#include "cli/profile_file.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "framework/pipeline/profiler/measure_profile.h"
#include "framework/train/compute.h"
#include "framework/train/head.h"
#include "framework/train/random_rows.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/photo_rows.h"
#include "ndp/photos/photo_source.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// Photos of a directory, decoded at each step. Their labels do not matter.
class LoadedPhotos {
 public:
  LoadedPhotos(Context& context, const std::string& directory, const ModelFile& file,
               const ProfileOptions& options, bool fast_decode)
      : source_(context.fs(), directory) {
    Preprocess preprocess = file.preprocess;
    preprocess.fast_decode = fast_decode;
    check_input(file, preprocess);
    const PhotoPage page = source_.list("", static_cast<size_t>(options.batch)).or_throw();
    for (const PhotoRef& p : page.photos) photos_.push_back({.path = p.path, .bytes = p.size});
    rows_ = std::make_unique<PhotoRows>(preprocess, /*memory_limit=*/0);
    std::vector<QuarantinedPhoto> quarantined;
    std::map<std::string, int64_t> skipped;
    rows_->fill(
        photos_, [this](size_t i) { return source_.open(photos_[i].path); }, context.progress(),
        quarantined, skipped);
    std::vector<size_t> readable;
    for (size_t i = 0; i < photos_.size(); ++i) {
      if (rows_->has(i)) readable.push_back(i);
    }
    if (readable.empty()) throw Error(directory, ": there is no photo that can be read");
    const std::vector<int64_t> labels(readable.size(), 0);
    dataset_ = std::make_unique<PhotoDataset>(*rows_, std::move(readable), labels);
  }

  Dataset& dataset() { return *dataset_; }

 private:
  static void check_input(const ModelFile& file, const Preprocess& preprocess) {
    const Graph g = bind(file.model, 1);
    if (g.inputs().size() == 1 && g.type(g.inputs()[0]).dtype == DType::kF32 &&
        g.shape(g.inputs()[0]).count() == static_cast<int64_t>(preprocess.values())) {
      return;
    }
    throw Error(file.path, " does not take photos of ", describe(preprocess),
                ": leave DATA out, and nothing is said of loading");
  }

  DirectorySource source_;
  std::vector<Photo> photos_;
  std::unique_ptr<PhotoRows> rows_;
  std::unique_ptr<PhotoDataset> dataset_;
};

ProfileOptions options_of(const Args& args, Context& context) {
  ProfileOptions options{.model = args.required("model"), .batch = args.integer("batch")};
  if (options.batch < 1) throw UsageError("--batch " + args.text("batch") + ": at least 1");
  const int64_t steps = args.integer("steps");
  if (steps < 1 || steps > limits::kProfiledSteps) {
    throw UsageError("--steps " + args.text("steps") + ": 1 to " +
                     std::to_string(limits::kProfiledSteps));
  }
  options.steps = static_cast<int>(steps);
  try {
    options.optimizer.kind = optimizer_named(args.text("opt"));
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  const TrainingCompute compute = training_compute(compute_of(args), context.device());
  if (!compute.why.empty()) context.progress().say(compute.why);
  options.compute = compute.dtype;
  options.load = args.has("DATA");
  if (options.load) refuse_object_stores({args.text("DATA")});
  options.seed = context.seed();
  return options;
}

struct Sums {
  double forward_s = 0, input_gradient_s = 0, weight_gradient_s = 0;
  double saved_bytes = 0, parameter_bytes = 0, frozen_bytes = 0;
};

Sums sums_of(const ModelProfile& profile) {
  Sums s;
  for (const NodeProfile& n : profile.nodes) {
    if (n.is_input()) continue;
    s.forward_s += n.forward.median_s;
    s.input_gradient_s += n.input_gradient.median_s;
    s.weight_gradient_s += n.weight_gradient.median_s;
    s.saved_bytes += n.saved_bytes;
    s.parameter_bytes += n.parameter_bytes;
    s.frozen_bytes += n.frozen_bytes;
  }
  return s;
}

Json summary(const ModelProfile& profile, bool loads) {
  const Sums s = sums_of(profile);
  return {{"nodes", profile.nodes.size()},
          {"batch", profile.batch},
          {"forward_ms", s.forward_s * 1e3},
          {"input_gradient_ms", s.input_gradient_s * 1e3},
          {"weight_gradient_ms", s.weight_gradient_s * 1e3},
          {"optimizer_ms", profile.optimizer_s_per_byte * s.parameter_bytes * 1e3},
          {"copy_ms", profile.copy_s() * 1e3},
          {"load_ms", loads ? Json(profile.load_s() * 1e3) : Json()},
          {"parameter_bytes", s.parameter_bytes},
          {"frozen_bytes", s.frozen_bytes},
          {"saved_bytes", s.saved_bytes},
          {"peak_bytes", profile.peak_bytes}};
}

// The nodes that take longest, and how much of all.
std::string longest(const ModelProfile& profile) {
  constexpr size_t kShown = 10;
  std::vector<const NodeProfile*> nodes;
  double all_s = 0;
  for (const NodeProfile& n : profile.nodes) {
    if (n.is_input()) continue;
    nodes.push_back(&n);
    all_s += n.forward.median_s + n.backward_s();
  }
  const auto seconds = [](const NodeProfile* n) { return n->forward.median_s + n->backward_s(); };
  std::ranges::stable_sort(nodes, std::greater(), seconds);
  nodes.resize(std::min(nodes.size(), kShown));
  std::string text = fmt::format("\n{:>11}{:>11}{:>11}{:>8}  {:<20}{}\n", "forward ms", "input ms",
                                 "weight ms", "share", "op", "node");
  for (const NodeProfile* n : nodes) {
    text +=
        fmt::format("{:>11.3f}{:>11.3f}{:>11.3f}{:>7.1f}%  {:<20}{}\n", n->forward.median_s * 1e3,
                    n->input_gradient.median_s * 1e3, n->weight_gradient.median_s * 1e3,
                    100 * seconds(n) / all_s, n->description, n->id);
  }
  return text;
}

}  // namespace

void declare_profile(ArgsSpec& args) {
  args.positional("DATA", "photos of which loading is measured, too; without, it takes nothing");
  args.flag("m,model", "the ONNX file or run directory (required)", "MODEL");
  args.flag(
      "o,out",
      "the file to write: .json, or AshPipe's graph as .txt, for ndtrain plan train; .dot; .csv "
      "(required)",
      "FILE");
  args.flag("b,batch", "rows of a step", "N", "64");
  args.flag("steps", "steps that count; one before them does not", "N", "100");
  args.flag("freeze", "what is not trained, as for ndtrain train", "WHAT", "none");
  args.flag("opt", "optimizer: sgd, adam, adamw or rmsprop", "NAME", "adam");
  declare_compute(args);
  args.flag("fast-decode", "decode large JPEGs at a reduced size");
  declare_profile_convergence(args);
  declare_computing(args);
  declare_seed(args);
}

int run_profile(Context& context, const Args& args) {
  if (args.on("convergence")) return run_profile_convergence(context, args);
  refuse_profile_convergence(args);
  const std::string out = args.required("out");
  constexpr std::string_view kKinds[] = {".json", ".txt", ".dot", ".csv"};
  if (std::ranges::count(kKinds, extension_of(out)) == 0) {
    throw UsageError("-o " + out + ": a name that ends in .json, .txt, .dot or .csv");
  }
  ProfileOptions options = options_of(args, context);
  const ModelFile file = load_model(context.fs(), options.model);
  const std::vector<std::string> trained = trainable_parameters(file.model, args.text("freeze"));
  Progress& progress = context.progress();
  ModelProfile profile;
  const auto measure = [&](Dataset& rows) {
    progress.begin("profiling", options.steps, "steps");
    options.on_step = [&](int done) {
      progress.update(done);
      return !progress.interrupted();
    };
    profile =
        measure_profile(file.model, trained, context.device(), rows, options, context.clock());
    progress.end();
  };
  if (options.load) {
    LoadedPhotos photos(context, args.text("DATA"), file, options, args.on("fast-decode"));
    measure(photos.dataset());
  } else {
    TensorDataset rows = random_rows(file.model, options.batch, options.seed);
    measure(rows);
    progress.say("no DATA: loading is said to take nothing");
  }
  if (progress.interrupted()) return kInterrupted;
  write_profile(context.fs(), out, profile);
  Json json = summary(profile, options.load);
  json["file"] = out;
  context.print(json, table(json) + longest(profile));
  return kOk;
}

}  // namespace ndtrain::cli
