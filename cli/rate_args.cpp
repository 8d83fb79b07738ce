#include "cli/rate_args.h"

#include <filesystem>

#include "framework/core/json.h"
#include "framework/core/limits.h"

namespace ndtrain::cli {

namespace {

std::string profile_text(Fs& fs, const std::string& file) {
  return fs.read(file, limits::kConvergenceText + 1).or_throw();
}

// Throws Error where it is none, or not of `model`, a file; "": of any.
ConvergenceProfile profile_in(const std::string& text, const std::string& file,
                              const std::string& model) {
  ConvergenceProfile profile = parse_convergence_profile(text, file);
  const std::string name = std::filesystem::path(model).stem().string();
  if (!model.empty() && profile.model != name) {
    throw Error("--convergence ", file, ": is of ", profile.model, ", not of ", name,
                "; measure one by ndtrain profile --convergence");
  }
  return profile;
}

}  // namespace

void declare_rates(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Slow links");
  args.flag("controller",
            "by --sync sparse: batches and --drop follow what ranks and links take, by a profile "
            "of what they cost; its decisions are in RUN/rates.log");
  args.flag("largest-batch",
            "with --controller: photos of a step on this rank at most (default: what half of the "
            "free memory has room for, and the profile knows of)",
            "N");
  args.flag("dry-run", "with --controller: decisions are logged, and nothing goes by them");
}

void read_rates(const Args& args, Fs& fs, const std::string& model, SlowLinkSpec& spec) {
  if (!spec.controller) {
    if (args.given("dry-run")) throw UsageError("--dry-run is of --controller: add that");
    return;
  }
  if (args.text("on-rank-loss") == "regroup") {
    throw UsageError(
        "--controller with --on-rank-loss regroup: what it has learnt is of all ranks; leave one "
        "away");
  }
  const std::string file = args.required("convergence"), text = profile_text(fs, file);
  static_cast<void>(profile_in(text, file, model));
  spec.convergence = text;
}

void declare_job_rates(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Slow links");
  args.flag("controller",
            "by --sync sparse: batches and --drop follow what Tuners and links take, by "
            "--convergence; its decisions are in run/rates.log of the job's directory");
  args.flag("convergence",
            "with --controller: what batches and drops cost in steps, from ndtrain profile "
            "--convergence",
            "FILE");
  args.flag("largest-batch",
            "with --controller: photos of a step on one Tuner at most (default: what half of its "
            "free memory has room for, and the profile knows of)",
            "N");
}

// The Tuner, and parse_job_spec() here, say what else goes together.
void read_job_rates(const Args& args, Fs& fs, Json& job) {
  if (args.has("convergence")) {
    const std::string file = args.text("convergence"), text = profile_text(fs, file);
    static_cast<void>(profile_in(text, file, args.text("model")));
    job["convergence"] = text;
  }
  if (!args.on("controller")) {
    if (args.said_here("dry-run")) {
      throw UsageError("--dry-run of a fine-tuning is of --controller: add that, or leave it away");
    }
    return;
  }
  static_cast<void>(args.required("convergence"));
  if (args.on("dry-run")) job["dry_run"] = true;
}

std::vector<std::pair<std::string, std::string>> rate_settings(const SparseSyncOptions& options) {
  if (!options.control) return {};
  std::vector<std::pair<std::string, std::string>> all = {{"controller", "true"}};
  if (options.control->dry_run) all.emplace_back("dry-run", "true");
  return all;
}

}  // namespace ndtrain::cli
