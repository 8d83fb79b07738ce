#include "cli/auto_profile.h"

#include <fmt/format.h>

#include "cli/computing_args.h"
#include "cli/progress_bar.h"
#include "cli/started_ranks.h"
#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/core/thread_pool.h"
#include "framework/core/utc_text.h"
#include "ndp/jobs/photo_set.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

void declare_auto(ArgsSpec& args) {
  args.flag("auto",
            "choose mode, cut, number of runs and, where the job is for all stores, which of them, "
            "by what this profile predicts (ndtrain plan --save-profile); where the version is "
            "promoted by rule the cut stays where training "
            "begins, so that the features say something of the version in force as well",
            "PROFILE");
  args.flag("profile",
            "auto: --auto by what the model costs here, which is measured with drawn photos of "
            "100 KB and kept for the next time",
            "auto");
}

namespace {

constexpr double kDrawnBytes = 100'000;
constexpr int kMeasuredAs = 2;  // what was measured in another way before is measured again

// Of what decides what is measured.
std::string kept_at(Context& context, const MeasureConfig& config, const Device& device) {
  const std::string model = context.fs().read(config.model, limits::kModelFile).or_throw();
  const std::string key =
      fmt::format("{} {} {} {} {} {} {} {}", kMeasuredAs, to_hex(sha256(model)), config.head,
                  config.freeze, config.feature_dtype == DType::kF16 ? "f16" : "f32", config.batch,
                  device.numerics(), shared_threads().threads());
  return join(default_cache_directory(), "profiles/" + to_hex(sha256(key)) + ".json");
}

}  // namespace

Profile kept_profile(Context& context, MeasureConfig config) {
  config.photos = config.labels = "";
  config.photo_bytes = kDrawnBytes;
  const Device& device = context.device();
  const std::string path = kept_at(context, config, device);
  if (context.fs().exists(path)) {
    context.progress().say("by what was measured of the model before: " + path);
    return load_profile(context.fs(), path);
  }
  const ScratchDirectory scratch("ndtrain-plan");
  config.scratch = scratch.path();
  Profile profile =
      measure_profile(config, device, context.fs(), context.clock(), context.progress());
  context.fs().make_directories(join(default_cache_directory(), "profiles")).or_throw();
  publish(context.fs(), path, to_json(profile)).or_throw();
  return profile;
}

void put_links(const TunerStores& known, Profile& profile) {
  if (known.measured == 0) return;
  const std::string when = "measured by the Tuner on " + utc_text(known.measured);
  profile.set(profile.inputs.bandwidth, known.fastest, when + ", of the fastest store");
  profile.set(profile.inputs.store_bandwidth, known.slowest, when + ", of the slowest store");
}

std::optional<Profile> auto_profile(Context& context, const Args& args, const JobSpec& spec,
                                    const TunerStores& known) {
  const std::string measure = args.text("profile");
  if (!measure.empty() && measure != "auto") {
    throw UsageError("--profile " + measure + ": there is auto; a file is for --auto");
  }
  if (measure.empty() && !args.has("auto")) return std::nullopt;
  if (!measure.empty() && args.has("auto")) {
    throw UsageError("--auto and --profile auto: each is a profile; give one");
  }
  if (args.has("cut")) {
    throw UsageError(
        "--auto or --profile, and --cut: the profile chooses the cut; give one of them");
  }
  if (measure.empty()) {
    Profile profile = load_profile(context.fs(), args.text("auto"));
    put_links(known, profile);
    return profile;
  }
  if (known.photos == 0 || known.measured == 0) {
    throw UsageError(
        known.asked
            ? "--profile auto: the Tuner has measured no link to a store with photos yet; it does "
              "so when a store is here and no job is in progress. Until then plan by --auto PROFILE"
            : "--profile auto: how many photos there are and what their links carry is not known "
              "before stores are here; ndtrain tuner serve and ndtrain job submit --profile auto "
              "know it, and --auto PROFILE goes by what a file says of it");
  }
  MeasureConfig config{.model = args.required("model")};
  config.head = spec.head;
  config.freeze = spec.freeze;
  config.feature_dtype = spec.feature_dtype;
  config.batch = spec.trainer.batch;
  Profile profile = kept_profile(context, config);
  profile.set(profile.inputs.photos, known.photos, "known to the Tuner");
  put_links(known, profile);
  return profile;
}

}  // namespace ndtrain::cli
