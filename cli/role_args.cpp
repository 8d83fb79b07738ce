#include "cli/role_args.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/augment_args.h"
#include "cli/auto_profile.h"
#include "cli/flags_of_train.h"
#include "cli/group_args.h"
#include "cli/head_args.h"
#include "cli/number_args.h"
#include "cli/optimizer_args.h"
#include "cli/precision_args.h"
#include "cli/progress_bar.h"
#include "cli/sampling_args.h"
#include "cli/training_args.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "ndp/wire/certificates.h"
#include "ndp/wire/protocol.h"
#include "tuner/plan/planned_job.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

bool told_to_stop() { return was_interrupted(); }

int exit_code_of_result(const Json& result) {
  const bool whole =
      result.value("left_out", uint64_t{0}) == 0 && !result.contains("left_out_stores");
  return whole ? kOk : kQuarantined;
}

void declare_loopback(ArgsSpec& args) {
  args.flag("loopback",
            "who may ask by loopback while there is no token: own, processes of this user and of "
            "root; open, all users of the machine",
            "WHO", "own");
}

std::string loopback_of(const Args& args) {
  std::string who = args.text("loopback");
  if (who != "own" && who != "open") {
    throw UsageError("--loopback " + who + ": there are own and open");
  }
  return who;
}

void declare_http_security(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Access");
  args.flag("http-cert", "a certificate for --http, by which it has TLS (ndtrain cert init --web)",
            "FILE");
  args.flag("http-key", "its key", "FILE");
  args.flag("http-tls", "the oldest TLS that --http speaks: 1.3 or 1.2", "VERSION", "1.3");
  args.flag(
      "http-name",
      "names by which --http is asked besides those of its address and certificate, as behind "
      "a proxy; a request for another is refused",
      "HOST[,HOST...]");
  args.flag("http-rate",
            "requests a second, and as many at once, of one token, or of one address of other "
            "machines without one; 0: any number",
            "N", "500");
  args.flag("http-drain",
            "when it is told to stop, requests that are under way have so long to end", "SECONDS",
            fmt::format("{}", kHttpDrain.count()));
  declare_loopback(args);
}

std::chrono::milliseconds drain_of(const Args& args) {
  const double seconds = args.number("http-drain");
  if (!(seconds >= 0 && seconds <= 3600)) {
    throw UsageError("--http-drain " + args.text("http-drain") + ": 0 to 3600 seconds");
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(seconds));
}

std::vector<std::string> parts_of(const std::vector<std::string>& lists) {
  std::vector<std::string> parts;
  for (const std::string& list : lists) {
    for (size_t at = 0; at <= list.size();) {
      const size_t end = std::min(list.find(',', at), list.size());
      parts.push_back(list.substr(at, end - at));
      at = end + 1;
    }
  }
  return parts;
}

namespace {

std::vector<std::string> hosts_of(const std::vector<std::string>& lists) {
  std::vector<std::string> names = parts_of(lists);
  for (const std::string& name : names) {
    if (!is_host(name)) {
      throw UsageError("--http-name '" + name + "': no DNS name and no IP address");
    }
  }
  return names;
}

}  // namespace

HttpSecurity http_security_of(Context& context, const Args& args, const std::string& address,
                              const LinkSecurity& own) {
  if (address.empty()) return {};
  if (args.has("http-cert") != args.has("http-key")) {
    throw UsageError("--http-cert and --http-key go together");
  }
  const bool exposed = !check_exposure(address, false, false).ok();
  HttpSecurity s{.authority = own.authority,
                 .demanded = exposed && !args.on("insecure"),
                 .revoked = own.revoked};
  s.names = hosts_of(args.list("http-name"));
  s.rate = args.number("http-rate");
  if (!(s.rate >= 0)) {
    throw UsageError("--http-rate " + args.text("http-rate") + ": a number of at least 0");
  }
  if (const std::string oldest = args.text("http-tls"); oldest == "1.2") {
    s.oldest = TlsVersion::k12;
  } else if (oldest != "1.3") {
    throw UsageError("--http-tls " + oldest + ": there are 1.2 and 1.3");
  }
  s.open_loopback = loopback_of(args) == "open" || exposed;  // where all may come, users here may
  if (args.has("http-cert")) {
    s.certificate = context.fs().read(args.text("http-cert"), limits::kPemFile).or_throw();
    s.key = context.fs().read(args.text("http-key"), limits::kPemFile).or_throw();
  } else if (s.demanded) {
    s.certificate = own.certificate;
    s.key = own.key;
  }
  if (!s.demanded || s.tls()) return s;
  throw Error(address,
              " can be reached by other machines: give it TLS with --http-cert and --http-key "
              "(`ndtrain cert init DIR --web HOST` makes them), or serve it in the clear with "
              "--insecure");
}

void declare_scrub(ArgsSpec& args, const std::string& what) {
  args.flag("scrub", what + "; 12h, 30d or 4w, 0: never", "TIME", "30d");
}

std::chrono::nanoseconds scrub_of(const Args& args) {
  constexpr int64_t kMostDays = 3650;
  const std::string text = args.required("scrub");
  if (text == "0") return std::chrono::nanoseconds(0);
  const std::chrono::seconds time(parse_duration("scrub", text));
  if (time <= std::chrono::days(kMostDays)) return time;
  throw UsageError(fmt::format("--scrub {}: at most {}d", text, kMostDays));
}

void declare_sandbox(ArgsSpec& args, const std::string& modes) {
  args.flag("sandbox",
            "what is decoded and imported in processes of their own, which can do nothing else: " +
                modes + "; or off",
            "off|uploads|all", "uploads");
}

SandboxMode sandbox_of(const Args& args) {
  try {
    return sandbox_mode(args.required("sandbox"));
  } catch (const Error& e) {
    throw UsageError(std::string("--sandbox ") + e.what());
  }
}

std::string name_of_role(const Args& args, const std::string& otherwise) {
  if (args.has("name")) {
    const std::string name = args.text("name");
    if (is_store_name(name)) return name;
    throw UsageError("--name " + name +
                     ": letters, digits, '.', '_' and '-', at most 64, not beginning with . or -");
  }
  char host[256] = {};
  return gethostname(host, sizeof(host) - 1) == 0 && is_store_name(host) ? host : otherwise;
}

namespace {

void declare_where(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "What is done where");
  args.flag("mode",
            "where the work is done: ndpipe, stores extract and send features; typical, "
            "they send photos; srv-p, crops; srv-c, compressed crops; ideal, the Tuner has the "
            "photos itself (--photos)",
            "MODE", "ndpipe");
  args.flag("cut",
            "send the features of this earlier value, as ndtrain plan names cuts; what is frozen "
            "behind it runs on the Tuner in every epoch (default: where training begins)",
            "VALUE");
  declare_auto(args);
  args.flag("photos", "of --mode ideal: the photos, a directory on the Tuner", "DIR");
  args.flag("labels", "of --mode ideal: a CSV file,class on the Tuner (default: the directories)",
            "CSV");
  args.flag("feature-dtype", "f16 or f32: what crosses, and how the model rounds there", "TYPE",
            "f16");
  args.flag("memory", "features beyond this are streamed from disk (default: half of what is free)",
            "BYTES");
  args.flag("disk", "the Tuner's disk may hold this much (default: a tenth of the volume)",
            "BYTES");
}

void declare_stores(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Stores that are away");
  args.flag("store-timeout",
            "seconds that the job waits for a store that is away before it begins, and for Tuners "
            "before it trains; 0: not at all",
            "S", "30");
  args.flag("lost-after", "seconds that a store may be away when the job has begun", "S", "600");
  args.flag("allow-missing", "go on without the photos that only lost stores have");
}

}  // namespace

void declare_training(ArgsSpec& args, const std::string& runs_flag) {
  const ArgsSpec::Heading heading(args, "Training");
  args.flag(runs_flag,
            "training photos are dealt to N runs; stores extract one while the Tuner "
            "trains on another",
            "N", "1");
  declare_training_rules(args);
  args.flag("recipe",
            "ndpipe: Adam, batch 1024, 30 epochs, learning rate .015 in five steps, "
            "weight decay .002; what is given by flags of their own goes over it",
            "NAME");
  declare_compute(args);
  args.flag("freeze", "what stays as it is (see ndtrain train)", "WHAT", "auto");
  args.flag("val-split", "share of photos for validation, chosen by their content", "X", "0.2");
  args.flag("group-duplicates",
            "photos that are almost the same, also of other stores, are all trained on or all "
            "validated with; stores decode each photo once for it");
  args.flag("reset-optimizer", "each run begins without the last one's moments, as NDPipe does");
  args.flag("all-runs", "train on all photos so far, not on this run's alone");
  args.flag("damp", "learning rate times (N - run/2) / N");
  declare_where(args);
  declare_stores(args);
  declare_group(args);
  declare_precision_flags(args);
  declare_deterministic(args, /*features=*/true);
  refuse_flags_of_train(args);
}

namespace {

// NDPipe's (ASPLOS'24), but for what was given.
void use_recipe(const Args& args, Json& j) {
  const auto set = [&](const char* flag, const char* key, const Json& value) {
    if (!args.given(flag)) j[key] = value;
  };
  set("epochs", "epochs", 30);
  set("batch", "batch", 1024);
  set("lr", "lr", 0.015);
  set("opt", "opt", "adam");
  set("sched", "sched", "ndpipe");
  set("weight-decay", "weight_decay", 0.002);
}

void read_optimizer(const Args& args, Json& j) {
  const OptimizerConfig c = optimizer_of(args);
  j["opt"] = args.text("opt");
  j["momentum"] = c.momentum;
  j["dampening"] = c.dampening;
  j["nesterov"] = c.nesterov;
  j["alpha"] = c.alpha;
  j["beta1"] = c.beta1;
  j["beta2"] = c.beta2;
  j["epsilon"] = c.epsilon;
  j["centered"] = c.centered;
  j["amsgrad"] = c.amsgrad;
  j["weight_decay"] = c.weight_decay;
  j["clip_norm"] = c.clip_norm;
  j["ema"] = c.ema;
  j["layer_decay"] = c.layer_decay;
  if (!c.lr_of.empty()) j["lr_of"] = rates_of_names(args);
}

void read_common(const Args& args, Json& j) {
  j["store_timeout"] = args.number("store-timeout");
  j["lost_after"] = args.number("lost-after");
  j["allow_missing"] = args.on("allow-missing");
  j["deterministic"] = args.on("deterministic");
  const PrecisionConfig precision = precision_config(args, "");
  if (!precision.precision.empty()) {
    j["precision"] = precision.precision;
    j["max_drop"] = precision.max_drop;
  }
}

void plan_by_profile(Context& context, const Args& args, JobSpec& spec, const TunerOffers& tuner) {
  const TunerStores known = tuner.stores ? tuner.stores() : TunerStores();
  std::optional<Profile> profile = auto_profile(context, args, spec, known);
  PlanInputs& inputs = profile->inputs;
  if (spec.disk == 0) inputs.disk = static_cast<double>(tuner.room());
  if (spec.stores.all()) inputs.stores = {std::max(1, known.number)};
  StoreCover cover;
  if (tuner.plan) cover = cover_in(tuner.plan(spec), known, inputs);
  spec = planned(spec, std::move(inputs), cover);
  context.progress().say(spec.why);
}

}  // namespace

void read_training(Context& context, const Args& args, JobSpec& spec, const TunerOffers& tuner) {
  if (spec.kind == JobKind::kFinetune) {
    spec.sampling = sampling_of(args);
    spec.augmentation = augmentation_of(args);
    spec.views = views_of(args);
  }
  Json j = parse_json(spec.text());
  read_common(args, j);
  if (spec.kind != JobKind::kFinetune) {
    spec = parse_job_spec(json_text(j));
    return;
  }
  auto number = [&](const char* key, const char* flag) { j[key] = args.number(flag); };
  auto integer = [&](const char* key, const char* flag) { j[key] = args.integer(flag); };
  auto text = [&](const char* key, const char* flag) { j[key] = args.text(flag); };
  const std::string recipe = args.text("recipe");
  if (!recipe.empty() && recipe != "ndpipe")
    throw UsageError("--recipe " + recipe + ": there is ndpipe");
  integer("epochs", "epochs");
  integer("batch", "batch");
  number("lr", "lr");
  text("sched", "sched");
  number("warmup", "warmup");
  read_optimizer(args, j);
  j["best"] = ndp::name_of(best_of(args));
  number("label_smoothing", "label-smoothing");
  integer("patience", "patience");
  j["calibrate"] = args.on("calibrate");
  j["accumulate"] = accumulate_of(args);
  read_group(args, context.fs(), j);
  if (recipe == "ndpipe") use_recipe(args, j);
  j["head"] = head_of(args);
  j["compute"] = name_of(compute_of(args));
  text("freeze", "freeze");
  text("mode", "mode");
  text("photos", "photos");
  text("labels", "labels");
  text("feature_dtype", "feature-dtype");
  text("cut", "cut");
  number("val_split", "val-split");
  j["group_duplicates"] = args.on("group-duplicates");
  j["reset_optimizer"] = args.on("reset-optimizer");
  j["all_runs"] = args.on("all-runs");
  j["damp"] = args.on("damp");
  j["memory"] = static_cast<int64_t>(args.bytes("memory"));
  j["disk"] = static_cast<int64_t>(args.bytes("disk"));
  spec = parse_job_spec(json_text(j));
  if (args.has("auto") || args.has("profile")) plan_by_profile(context, args, spec, tuner);
}

}  // namespace ndtrain::cli
