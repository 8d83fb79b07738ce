#include <fmt/format.h>

#include <optional>

#include "cli/computing_args.h"
#include "cli/group_args.h"
#include "cli/progress_bar.h"
#include "cli/restored_term.h"
#include "cli/role_args.h"
#include "cli/state_place.h"
#include "cli/verb.h"
#include "framework/core/descriptor_limit.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/jobs/model_file.h"
#include "ndp/store/disk_budget.h"
#include "tuner/daemon.h"
#include "tuner/standby.h"
#include "tuner/state_move.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

constexpr const char* kSandboxed =
    "uploads, photos that stores send and models; all, the Tuner's own photos too";

void declare_cache(ArgsSpec& args) {
  args.flag("cache-bytes",
            "features of earlier jobs kept on disk, which stores need not send again (default: a "
            "tenth of the volume; 0: none)",
            "BYTES");
}

void read_cache(const Args& args, TunerConfig& config) {
  if (!args.has("cache-bytes")) return;
  config.cache_bytes = static_cast<int64_t>(args.bytes("cache-bytes"));
  config.keep_features = config.cache_bytes > 0;
}

size_t jobs_kept(const Args& args) {
  const int64_t n = args.integer("keep-jobs");
  if (n < 1) throw UsageError(fmt::format("--keep-jobs {}: 1 or more", n));
  return static_cast<size_t>(n);
}

size_t jobs_at_once(const Args& args) {
  const int64_t n = args.integer("jobs-at-once");
  if (n < 1 || n > static_cast<int64_t>(kMostJobsAtOnce)) {
    throw UsageError(fmt::format("--jobs-at-once {}: 1 to {}", n, kMostJobsAtOnce));
  }
  return static_cast<size_t>(n);
}

// Null: the state is a directory.
std::optional<StandbyConfig> shared_state_of(const Args& args, const TunerConfig& config) {
  if (!is_shared_state(config.state)) {
    for (const char* flag : {"scratch", "standby", "restored"}) {
      if (!args.given(flag)) continue;
      throw UsageError(fmt::format(
          "--{}: only with a state in a database, --state postgresql://USER@HOST/DATABASE", flag));
    }
    return {};
  }
  if (!config.db.empty() && config.db != config.state) {
    throw UsageError(
        "--db: where the state is in a database its labels are in the same one, so that one "
        "process at a time writes both; leave --db out");
  }
  return StandbyConfig{
      .state = {.url = config.state, .scratch = args.required("scratch")},
      .http = config.http,
      .http_security = config.http_security,
      .read_http_security = [&config] { return config.read_http_security(config.security); }};
}

}  // namespace

void declare_tuner_serve(ArgsSpec& args) {
  args.flag("listen", "where PipeStores and members dial", "HOST:PORT", "127.0.0.1:25258");
  declare_leading(args);
  args.flag("http", "where people and tools ask: jobs, health, metrics; \"none\" for none",
            "HOST:PORT", "127.0.0.1:8420");
  args.flag("state",
            "jobs, features, models and versions are kept here (required); in a database, as "
            "postgresql://USER@HOST/DATABASE, another machine can take over",
            "DIR");
  args.flag("scratch",
            "with such a database: features and rows, which stores can send again, are kept here",
            "DIR");
  args.flag("standby",
            "with such a database: wait while another Tuner has it, and take over when that is "
            "silent for 8 seconds");
  args.flag("restored",
            "with such a database, once: it was put back from a dump, so stores may have met later "
            "terms; take one above all of them");
  args.flag("db",
            "labels that stores make (default: sqlite:STATE/labels.db, or the database of the "
            "state)",
            "URL");
  declare_cache(args);
  args.flag(
      "jobs-at-once",
      fmt::format("jobs that may run beside each other, where they want nothing of each other: "
                  "1 to {}; 1: one after the other",
                  kMostJobsAtOnce),
      "N", std::to_string(kMostJobsAtOnce));
  args.flag("keep-jobs",
            "how many jobs that are over are kept, the newest; older ones go with their files, but "
            "for those that have a name, a note or tags, or made a version which is there",
            "N", std::to_string(tuner::kKeptJobs));
  declare_scrub(args,
                "the label database and the models are read once in this time, to find what the "
                "disk has changed");
  args.flag(
      "watch",
      "fine-tune by itself, by this rule, when there are enough new labels by people or drift "
      "is seen, and relabel what a new version makes stale; several, one for a task and a "
      "collection, with commas between them",
      "RULE.toml");
  declare_sandbox(args, kSandboxed);
  declare_security(args);
  declare_http_security(args);
  declare_computing(args);
}

int run_tuner_serve(Context& context, const Args& args) {
  TunerConfig config;
  config.listen = args.required("listen");
  config.http = args.text("http") == "none" ? "" : args.text("http");
  config.state = args.required("state");
  config.db = args.text("db");
  read_cache(args, config);
  config.drain = drain_of(args);
  config.jobs_at_once = jobs_at_once(args);
  config.jobs_kept = jobs_kept(args);
  config.scrub = scrub_of(args);
  config.sandbox = sandbox_of(args);
  for (const std::string& rule : parts_of(args.list("watch"))) {
    config.watch.push_back(load_watch_rule(context.fs(), rule));
  }
  config.read_security = [&] {
    return security_of(context, args, LinkRole::kTuner, config.listen);
  };
  config.security = config.read_security();
  read_leading(args, config);
  config.read_http_security = [&](const LinkSecurity& own) {
    return http_security_of(context, args, config.http, own);
  };
  config.http_security = config.read_http_security(config.security);
  raise_descriptor_limit();
  Devices devices(context.device_name(), context.device_options());
  (void)devices.get(false);             // says now what is wrong with the backend
  std::unique_ptr<SharedState> shared;  // null: a directory
  if (const auto standby = shared_state_of(args, config)) {
    shared = args.on("standby") ? await_state(*standby, context.clock(), told_to_stop)
                                : SharedState::take(standby->state).or_throw();
    if (!shared) return kOk;  // told to stop
    log::info("has the shared state, term {} of its lease", shared->term());
    config.shown_state = postgres::without_password(config.state);
    config.state = SharedState::kDirectory;
    if (args.on("restored")) {
      raise_term(shared->fs(), join(config.state, "state.json"), context.clock().unix_seconds());
    }
    config.db = shared->labels();
  } else {
    settle_move(context.fs(), config.state);
  }
  TunerDaemon tuner(config, devices, shared ? shared->fs() : context.fs(), context.clock());
  log::info(
      "the Tuner listens on {}{}", tuner.address(),
      tuner.http_address().empty()
          ? ""
          : (config.http_security.tls() ? ", HTTPS on " : ", HTTP on ") + tuner.http_address());
  tuner.run(told_to_stop);
  log::info("stopped");
  return kOk;
}

void declare_finetune(ArgsSpec& args) {
  args.flag("m,model", "the model to start from, an ONNX file or a run directory (required)",
            "MODEL");
  args.flag("n,num_of_client", "PipeStores that take part", "N", "1");
  args.flag("p,port", "where they dial", "PORT", "25258");
  args.flag("listen", "the address to that port", "HOST", "127.0.0.1");
  declare_leading(args);
  args.flag("o,out", "the Tuner's state; the model is copied to OUT/model.onnx (required)", "OUT");
  declare_cache(args);
  declare_training(args, "r,num_of_run");
  args.flag("dry-run", "with --controller: its decisions are logged, and nothing goes by them");
  declare_sandbox(args, kSandboxed);
  declare_security(args);
  declare_computing(args);
  declare_seed(args);
}

int run_finetune(Context& context, const Args& args) {
  TunerConfig config{.http = ""};
  config.listen = args.required("listen") + ":" + args.required("port");
  config.state = args.required("out");
  demand_directory_of_state(config.state, "only tuner serve keeps its state in one");
  config.read_security = [&] {
    return security_of(context, args, LinkRole::kTuner, config.listen);
  };
  config.security = config.read_security();
  read_leading(args, config);
  read_cache(args, config);
  config.sandbox = sandbox_of(args);
  const ModelFile model = load_model(context.fs(), args.required("model"));
  raise_descriptor_limit();
  Devices devices(context.device_name(), context.device_options());
  TunerDaemon tuner(config, devices, context.fs(), context.clock());
  JobSpec spec;
  spec.model = to_hex(tuner.add_model(model.path));
  spec.seed = context.seed();
  spec.runs = static_cast<uint32_t>(args.integer("num_of_run"));
  spec.stores = static_cast<uint32_t>(args.integer("num_of_client"));
  read_training(context, args, spec, {.room = [&] {
                  return DiskBudget::default_room(context.fs(), config.state).or_throw();
                }});
  log::info("waits for {} PipeStore{} on {}; Ctrl-C begins with those that are here",
            spec.stores.number, spec.stores.number == 1 ? "" : "s", tuner.address());
  const TunerDaemon::Outcome outcome = tuner.run_job(
      spec, told_to_stop, [&](const std::string& line) { context.progress().say(line); },
      take_interrupt);
  if (!outcome.ended) {
    log::warn("stopped; the same command goes on");
    return kInterrupted;
  }
  if (!outcome.done) throw Error(outcome.message);
  const std::string written = join(config.state, "model.onnx");
  const std::string trained = join(outcome.directory, "run/model.onnx");
  publish(context.fs(), written, context.fs().read(trained).or_throw()).or_throw();
  Json json = parse_json(outcome.result);
  json["model"] = written;
  const Json& report = json["report"];
  std::string text;
  for (const char* key : {"model", "top1", "top5", "val_loss", "epochs", "train_photos",
                          "val_photos", "stores", "version"}) {
    if (json.contains(key)) text += fmt::format("{:<34}{}\n", key, plain(json[key]));
  }
  for (const char* key : {"feature_extraction_s", "feature_extraction_photos_per_s", "overall_s",
                          "tuner_busy_s", "tuner_waiting_s", "row_bytes", "model_bytes"}) {
    text += fmt::format("{:<34}{:.6g}\n", key, report[key].get<double>());
  }
  if (!outcome.message.empty()) text += outcome.message + "\n";
  context.print(json, text);
  return exit_code_of_result(json);
}

}  // namespace ndtrain::cli
