#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/augment_args.h"
#include "cli/auto_profile.h"
#include "cli/computing_args.h"
#include "cli/number_args.h"
#include "cli/plan_stores.h"
#include "cli/plan_tables.h"
#include "cli/started_ranks.h"
#include "cli/state_place.h"
#include "cli/verb.h"
#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "ndp/jobs/model_file.h"
#include "ndp/store/disk_budget.h"
#include "tuner/plan/measure.h"
#include "tuner/plan/planned_job.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

constexpr int kMostCount = 1000;  // stores, runs

DType feature_dtype(const std::string& name) {
  if (name == "f16") return DType::kF16;
  if (name == "f32") return DType::kF32;
  throw UsageError("--feature-dtype " + name + ": there are f16 and f32");
}

Profile measured(Context& context, const Args& args) {
  MeasureConfig config{.model = args.required("model")};
  config.photos = args.text("photos");
  config.labels = args.text("labels");
  config.photo_bytes = static_cast<double>(args.bytes("photo-bytes"));
  const bool drawn = args.text("profile") == "auto";
  if (!drawn && config.photos.empty() && !(config.photo_bytes > 0)) {
    throw UsageError("--photos DIR, or --photo-count N and --photo-bytes BYTES, are missing");
  }
  config.head = args.text("head");
  config.freeze = args.text("freeze");
  config.feature_dtype = feature_dtype(args.text("feature-dtype"));
  config.batch = args.integer("batch");
  if (config.batch < 1) throw UsageError("--batch " + args.text("batch") + ": at least 1");
  config.seed = context.seed();
  if (args.text("profile") == "auto") return kept_profile(context, config);
  const ScratchDirectory scratch("ndtrain-plan");
  config.scratch = scratch.path();
  return measure_profile(config, context.device(), context.fs(), context.clock(),
                         context.progress());
}

// What the flags say goes over what the profile and the Tuner say.
void apply_flags(Fs& fs, Profile& p, const Args& args, const StoreCover& cover) {
  PlanInputs& in = p.inputs;
  const auto take = [&](const std::string& flag, double& member) {
    if (args.has(flag)) p.set(member, parse_positive(flag, args.text(flag)), "given: --" + flag);
  };
  take("photo-count", in.photos);
  take("epochs", in.epochs);
  take("val-split", in.val_split);
  take("store-cores", in.costs.store.cores);
  take("tuner-cores", in.costs.tuner.cores);
  if (args.has("photo-bytes")) {
    p.set(in.costs.photo.bytes, static_cast<double>(args.bytes("photo-bytes")),
          "given: --photo-bytes");
  }
  const auto bandwidth = [&](const std::string& flag, double& member) {
    if (!args.has(flag)) return;
    const std::string first = parts_of(args.text(flag)).front();
    p.set(member, parse_bandwidth(flag, first), "given: --" + flag);
  };
  bandwidth("bandwidth", in.bandwidth);
  bandwidth("store-bandwidth", in.store_bandwidth);
  in.all_runs = args.on("all-runs");
  in.views = static_cast<double>(views_of(args));
  if (args.has("disk")) {
    in.disk = static_cast<double>(args.bytes("disk"));
  } else if (args.has("state")) {
    demand_directory_of_state(args.text("state"),
                              "--state says whose --scratch directory, or --disk how much");
    in.disk = static_cast<double>(DiskBudget::default_room(fs, args.text("state")).or_throw());
  }
  in.runs = parse_counts("runs", args.text("runs"), kMostCount);
  if (args.has("stores")) in.stores = parse_counts("stores", args.text("stores"), kMostCount);
  if (args.has("store-bandwidth")) in.links.clear();
  if (args.on("sweep")) {  // of any stores
    in.kept.clear();
    in.links.clear();
  } else {
    take_stores(cover, std::ranges::max(in.stores), in);
  }
  if (args.has("shares")) {
    in.held.clear();
    for (const std::string& s : parts_of(args.text("shares"))) {
      in.shares.push_back(parse_positive("shares", s));
    }
  }
  if (!(in.photos > 0)) throw UsageError("--photo-count is missing: the profile does not say it");
  if (!(in.bandwidth > 0)) throw UsageError("--bandwidth is missing, as 20M or 1Gbit");
}

// The fine-tuning that is planned, as far as flags alone say it.
Json job_of(const Args& args) {
  return {{"kind", "finetune"},
          {"model", std::string(64, '0')},  // which it is is not decided yet
          {"collection", args.text("collection")},
          {"head", args.text("head")},
          {"freeze", args.text("freeze")},
          {"batch", args.integer("batch")},
          {"feature_dtype", args.text("feature-dtype")},
          {"augment", args.text("augment")},
          {"views", args.has("views") ? args.integer("views") : 0}};
}

// What `ndtrain job submit finetune` refuses of these flags is no plan either: by the same
// function.
void refuse_as_a_job(const Json& job) try {
  (void)parse_job_spec(json_text(job));
} catch (const Error& e) {
  throw UsageError(e.what());
}

void refuse_as_a_job(const Args& args, const PlanInputs& in) {
  const auto whole = [](double n) {
    return n == std::floor(n) && std::abs(n) < 1e15 ? Json(static_cast<int64_t>(n)) : Json(n);
  };
  Json job = job_of(args);
  job["epochs"] = whole(in.epochs);
  job["val_split"] = in.val_split;
  job["all_runs"] = in.all_runs;
  job["disk"] = whole(std::floor(in.disk));
  for (const int runs : in.runs) {
    for (const int stores : in.stores) {
      job["runs"] = runs;
      job["stores"] = stores;
      refuse_as_a_job(job);
    }
  }
}

StoreCover take_from_tuner(Context& context, const Args& args, Profile& p) {
  Json job = job_of(args);
  job["seed"] = context.seed();
  refuse_as_a_job(job);
  if (args.has("model")) {
    const std::string path = load_model(context.fs(), args.text("model")).path;
    const std::string model = read_as_one_file(context.fs(), path).or_throw();
    job["model"] = to_hex(sha256(model));
  }
  return stores_for_plan(context, TunerClient(args), job, p);
}

int plan_sweep(Context& context, const Args& args, Profile& profile) {
  std::vector<int> stores;
  for (int n = 1; n <= 20; ++n) stores.push_back(n);
  if (args.has("stores")) stores = profile.inputs.stores;
  std::vector<double> bandwidths;
  for (const double gbit : {1.0, 2.5, 5.0, 10.0, 25.0, 40.0}) bandwidths.push_back(gbit * 1e9 / 8);
  if (args.has("bandwidth")) {
    bandwidths.clear();
    for (const std::string& b : parts_of(args.text("bandwidth"))) {
      bandwidths.push_back(parse_bandwidth("bandwidth", b));
    }
  }
  const std::vector<SweepPoint> points = sweep(profile.inputs, stores, bandwidths);

  // The sensitivities are of the first point at the profile's bandwidth that is as fast as claimed.
  profile.inputs.stores = {stores.back()};
  for (const SweepPoint& p : points) {
    if (p.bandwidth != profile.inputs.bandwidth || p.faster < profile.claimed_faster) continue;
    profile.inputs.stores = {p.stores};
    break;
  }
  const SweepPoint as_is = compare(profile.inputs);
  const std::vector<Sensitivity> all = sensitivities(profile);
  Json json = {{"profile", profile.name}, {"at", to_json(as_is)}};
  for (const SweepPoint& p : points) json["sweep"].push_back(to_json(p));
  for (const Sensitivity& s : all) {
    json["sensitivity"].push_back(
        {{"input", s.input}, {"half", to_json(s.half)}, {"twice", to_json(s.twice)}});
  }
  context.print(json, profile.name + "\n\ninputs\n" + input_table(profile) +
                          "\nndpipe against the fastest of typical, srv-p and srv-c\n" +
                          sweep_table(points) + "\n" + claim_lines(profile, points) + "\n" +
                          sensitivity_table(as_is, all));
  return kOk;
}

int plan_table(Context& context, const Args& args, const Profile& profile,
               const StoreCover& cover) {
  const Objective objective = objective_named(args.text("minimise"));
  const std::vector<Prediction> all = ranked(predict_all(profile.inputs), objective);
  const Prediction chosen = best(all, objective);
  Json json = {{"profile", profile.name}, {"best", to_json(chosen)}, {"why", why(chosen)}};
  json["remarks"] = remarks(profile.inputs);
  for (const Prediction& p : all) json["predictions"].push_back(to_json(p));
  Profile copy = profile;
  for (const NamedInput& input : named_inputs(copy)) {
    const auto source = profile.sources.find(input.path);
    if (source == profile.sources.end()) continue;
    json["inputs"][input.path] = {{"value", *input.value}, {"source", source->second}};
  }
  if (!profile.inputs.shares.empty()) json["shares"] = profile.inputs.shares;
  if (!cover.stores.empty()) json["from_tuner"] = to_json(cover, profile.inputs);
  const std::string cut = chosen.mode == JobMode::kNdpipe ? " at " + chosen.cut : "";
  std::string text = prediction_table(all, static_cast<size_t>(args.integer("top")));
  text += fmt::format("\nbest by {}: {}{}, {} store{}, {} run{}: {}\n", args.text("minimise"),
                      name_of(chosen.mode), cut, chosen.stores, chosen.stores == 1 ? "" : "s",
                      chosen.runs, chosen.runs == 1 ? "" : "s", why(chosen));
  for (const std::string& remark : remarks(profile.inputs)) text += "note: " + remark + "\n";
  if (!cover.stores.empty()) text += "\n" + store_lines(cover, profile.inputs);
  if (args.on("inputs")) text += "\ninputs\n" + input_table(profile);
  context.print(json, text);
  return kOk;
}

}  // namespace

void declare_plan(ArgsSpec& args) {
  args.flag("m,model", "the model, an ONNX file or a run directory, to be measured here", "MODEL");
  args.flag("photos", "photos to measure with, as for ndtrain train", "DIR");
  args.flag("labels", "what they show, a CSV file,class (default: their directories)", "CSV");
  args.flag("photo-count", "how many photos there are (default: as many as in --photos)", "N");
  args.flag("photo-bytes", "mean size of a photo; without --photos such photos are drawn", "BYTES");
  args.flag("profile",
            "take measurements, prices and watts from this JSON file; auto, from what was measured "
            "here of the model before with drawn photos of 100 KB, else measure that and keep it",
            "FILE|auto");
  args.flag("save-profile", "write them, with where each is from", "FILE");
  args.flag("stores", "PipeStores: a number, a list or a range, as 1,2,4 or 1-8", "N");
  args.flag(
      "shares",
      "how unequal the stores are, as 2,1,1 (default: equal; with --from-tuner by the photos that "
      "they have and how fast they are)",
      "LIST");
  args.flag("bandwidth", "of the Tuner's link, in bits, as 20M or 1Gbit; a list with --sweep",
            "RATE");
  args.flag("store-bandwidth", "of each store's own link (default: no limit)", "RATE");
  args.flag("store-cores", "cores that a PipeStore may use (default: threads here)", "N");
  args.flag("tuner-cores", "cores that the Tuner may use (default: threads here)", "N");
  args.flag("head", "keep or linear, as for ndtrain train", "KIND", "keep");
  args.flag("freeze", "what is not trained, as for ndtrain train", "WHAT", "auto");
  args.flag("feature-dtype", "f16 or f32: how features travel", "TYPE", "f16");
  args.flag("b,batch", "photos per training step", "N", "64");
  args.flag("runs", "numbers of runs to look at", "LIST", "1,2,3");
  args.flag("e,epochs", "passes over the photos of each run (default: the profile's, or 15)", "N");
  declare_augmentation(args);
  args.flag("all-runs", "each run trains on all photos so far, not on its own alone");
  args.flag("val-split", "share of the photos for validation (default: the profile's, or 0.2)",
            "X");
  args.flag("disk",
            "what features may take on the Tuner (default: with --state what its volume has for "
            "them, else no limit)",
            "BYTES");
  args.flag("state",
            "the Tuner's state directory, where this is its machine: features may take a tenth of "
            "that volume and never its last 5 %",
            "DIR");
  args.flag("minimise", "what is best: makespan, cost, energy or bytes", "WHAT", "makespan");
  args.flag("top", "rows to print", "N", "12");
  args.flag("inputs", "print every input too, with where it is from");
  args.flag("from-tuner",
            "go by what the Tuner (--http) knows: the photos and stores of --collection, how fast "
            "these were in the last fine-tuning, what their links carry, and the features that it "
            "has already; looks at plans by as many stores as have all photos to all of them");
  args.flag("collection", "with --from-tuner: of the photos, whose stores take part", "NAME",
            std::string(kDefaultCollection));
  declare_http(args);
  args.flag("sweep", "compare with the other modes over store counts and bandwidths");
  declare_computing(args);
  declare_seed(args);
}

int run_plan(Context& context, const Args& args) {
  if (args.integer("top") < 1) throw UsageError("--top " + args.text("top") + ": at least 1");
  if (args.on("sweep") && args.has("views")) {
    throw UsageError("--sweep with --views: it compares with other modes, which make none");
  }
  if (args.given("collection") && !args.on("from-tuner")) {
    throw UsageError("--collection without --from-tuner: the Tuner knows which stores have it");
  }
  const bool from_file = args.has("profile") && args.text("profile") != "auto";
  if (from_file && args.has("model")) {
    throw UsageError("--model and --profile: the profile says what the model costs; give one");
  }
  if (args.text("profile") == "auto" && args.has("photos")) {
    throw UsageError("--photos and --profile auto: that measures with drawn photos; give one");
  }
  Profile profile =
      from_file ? load_profile(context.fs(), args.text("profile")) : measured(context, args);
  StoreCover cover;
  if (args.on("from-tuner")) cover = take_from_tuner(context, args, profile);
  apply_flags(context.fs(), profile, args, cover);
  refuse_as_a_job(args, profile.inputs);
  validate(profile.inputs);
  if (args.has("save-profile")) {
    publish(context.fs(), args.text("save-profile"), to_json(profile)).or_throw();
  }
  return args.on("sweep") ? plan_sweep(context, args, profile)
                          : plan_table(context, args, profile, cover);
}

}  // namespace ndtrain::cli
