#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <thread>

#include "cli/class_falls.h"
#include "cli/computing_args.h"
#include "cli/note_args.h"
#include "cli/progress_bar.h"
#include "cli/role_args.h"
#include "cli/tuner_client.h"
#include "cli/verb.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "ndp/jobs/model_file.h"
#include "tuner/jobs/job_prediction.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

std::string when(const Json& seconds) {
  const auto t = seconds.get<time_t>();
  if (t == 0) return "-";
  char text[32];
  struct tm local {};
  localtime_r(&t, &local);
  std::strftime(text, sizeof(text), "%m-%d %H:%M:%S", &local);
  return text;
}

// "waits for job 3: both train, ..."; "": for none.
std::string wait_text(const Json& job) {
  if (!job.contains("waits_for_job")) return "";
  const Json& wait = job["waits_for_job"];
  return fmt::format("waits for job {}: {}", wait["job"].get<uint64_t>(),
                     wait["why"].get<std::string>());
}

// `message`: the job's, or as much of it as there is room for.
std::string summary(const Json& job, const std::string& message) {
  const Json& result = job["result"];
  const std::string without = message.empty() ? "" : ", " + message;
  if (const std::string wait = wait_text(job); !wait.empty()) return wait;
  if (job["state"] == "done" && result.contains("top1")) {
    const Json& top1 = result["top1"];
    return (top1.is_null() ? "top-1 -" : fmt::format("top-1 {:.4f}", top1.get<double>())) + without;
  }
  if (job["state"] == "done" && result.contains("labelled")) {
    return fmt::format("{} labelled{}", result["labelled"].get<int64_t>(), without);
  }
  if (job["state"] == "done" && result.contains("contradicted")) {
    return fmt::format("{} of {} labels contradicted{}", result["contradicted"].get<int64_t>(),
                       result["looked_at"].get<int64_t>(), without);
  }
  if (job["state"] == "running") {
    return fmt::format("{} of {} rows{}", job["rows"].get<int64_t>(), job["photos"].get<int64_t>(),
                       job["doing"] == "" ? "" : ", " + job["doing"].get<std::string>());
  }
  return message;
}

// On a line of a list: what a job that is done came to; its reasons are for `job show`.
std::string brief(const Json& job) {
  const std::string message = job["message"];
  return summary(job, job["state"] == "done" ? message.substr(0, message.find(": ")) : message);
}

bool has_ended(const Json& job) {
  const std::string state = job["state"];
  return state != "queued" && state != "running" && state != "paused";
}

int exit_code(const Json& job) {
  if (!has_ended(job)) return kInterrupted;
  return job["state"] == "done" ? exit_code_of_result(job["result"]) : kFailed;
}

// Prints the job's lines until it has ended. The first Ctrl-C while it waits for stores lets it
// begin without them.
Json follow(Context& context, const TunerClient& tuner, uint64_t id) {
  size_t next = 0;
  while (true) {
    const Json log = tuner.get(fmt::format("/jobs/{}/log?from={}", id, next));
    for (const Json& line : log["lines"]) context.progress().say(line.get<std::string>());
    next = log["next"];
    if (has_ended(log["job"])) return log["job"];
    const bool fixed = log["job"]["spec"]["deterministic"];
    if (!fixed && log["job"].contains("waits_for") && take_interrupt()) {
      (void)tuner.post(fmt::format("/jobs/{}/start-now", id));
      continue;
    }
    if (told_to_stop()) {
      context.progress().say(
          fmt::format("job {0} goes on; ndtrain job show {0} --follow shows it, ndtrain job cancel "
                      "{0} ends it",
                      id));
      return log["job"];
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
}

// What was predicted of each stage beside what it took.
std::string predicted_text(const Json& report) {
  const Json predicted = report.value("predicted", Json::object());
  std::string text;
  if (report.contains("not_predicted")) {
    text = fmt::format("{:<32} {}\n", "not predicted", report["not_predicted"].get<std::string>());
  }
  for (const char* stage : kPredictedStages) {
    if (!predicted.contains(stage) || !report.contains(stage)) continue;
    text +=
        fmt::format("{:<32} {:.6g}, predicted by {}: {:.6g}\n", stage, report[stage].get<double>(),
                    predicted["by"].get<std::string>(), predicted[stage].get<double>());
  }
  return text;
}

void show(Context& context, const Json& job) {
  const std::string message = job["message"];
  const bool done = job["state"] == "done";
  std::string text = fmt::format(
      "job        {}\nkind       {}\nstate      {}{}\nsubmitted  {}\nstarted    {}\nended      "
      "{}\n",
      job["job"].get<uint64_t>(), job["kind"].get<std::string>(), job["state"].get<std::string>(),
      done || message.empty() ? "" : ": " + message, when(job["submitted"]), when(job["started"]),
      when(job["ended"]));
  text += notes_text(notes_in(job));
  if (job["state"] == "running" || job.contains("waits_for_job"))
    text += "now        " + summary(job, job["message"]) + "\n";
  for (const Json& s : job["result"].value("left_out_stores", Json::array())) {
    text += fmt::format("{:<32} {}: {} photos, {}\n", "left out", s["store"].get<std::string>(),
                        s["photos"].get<uint64_t>(), s["why"].get<std::string>());
  }
  text += class_falls_text(job["result"]);
  for (const auto& [key, value] : job["result"].items()) {
    if (!value.is_structured()) {
      text += fmt::format("{:<32} {}\n", key, plain(value));
    }
  }
  if (job["result"].contains("report")) {
    std::string from;
    const Json made_from = job["result"]["report"].value("made_from", Json::object());
    for (const auto& [what, rows] : made_from.items()) {
      from += fmt::format("{}{} {}", from.empty() ? "" : ", ", what, rows.get<uint64_t>());
    }
    if (!from.empty()) text += fmt::format("{:<32} {}\n", "made from", from);
    for (const Json& w : job["result"]["report"].value("work", Json::array())) {
      if (!w.contains("joules")) continue;
      text += fmt::format("{:<32} {:.6g}\n", w["what"].get<std::string>() + ", joules",
                          w["joules"].get<double>());
    }
    text += predicted_text(job["result"]["report"]);
    for (const auto& [key, value] : job["result"]["report"].items()) {
      if (value.is_number()) text += fmt::format("{:<32} {:.6g}\n", key, value.get<double>());
    }
  }
  if (done && !message.empty()) text += message + "\n";
  context.print(job, text);
}

uint64_t job_number(const Args& args) {
  const std::string text = args.required("JOB");
  if (text.empty() || text.size() > 18 ||
      text.find_first_not_of("0123456789") != std::string::npos) {
    throw UsageError("JOB " + text + ": a number, see ndtrain job ls");
  }
  return std::stoull(text);
}

// "all", a number, or names with commas between them, as a job's spec has it.
Json stores_of(const std::string& text) {
  if (text == "all") return text;
  if (!text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); })) {
    return try_parse_json(text);
  }
  return parts_of({text});
}

// An older Tuner does not know the key: it is there where it says something.
std::string with_notes(const JobSpec& spec, const Notes& notes) {
  Json json = parse_json(spec.text());
  if (!notes.empty()) json["notes"] = ndp::to_json(notes);
  return json_text(json);
}

// As a job's spec has it.
Json promotion_of(const Args& args) {
  const std::string when = args.text("promote");
  if (when != "always" && when != "rule") {
    throw UsageError("--promote " + when + ": there are always and rule");
  }
  for (const char* other : {"candidate", "no-publish"}) {
    if (args.given("promote") && args.on(other)) {
      throw UsageError("--promote " + when + " and --" + other + ": give one");
    }
  }
  if (args.on("candidate")) return false;
  if (when == "always") return true;
  if (args.given("promote") && args.number("val-split") == 0) {
    throw UsageError("--promote rule and --val-split 0: the rule needs photos for validation");
  }
  return when;
}

// Those of training, but for what every verb and every job takes.
std::vector<std::string> flags_of_finetune() {
  constexpr std::string_view kOfEachJob[] = {"store-timeout", "lost-after", "allow-missing",
                                             "deterministic", "precision",  "max-drop"};
  const std::vector<std::string> of_each_verb = ArgsSpec("job submit").names();
  ArgsSpec training("job submit");
  declare_training(training, "r,runs");
  std::vector<std::string> names = {"no-publish", "promote", "candidate"};
  for (const std::string& name : training.names()) {
    if (std::ranges::count(kOfEachJob, name) + std::ranges::count(of_each_verb, name) == 0) {
      names.push_back(name);
    }
  }
  return names;
}

// Throws UsageError for a flag that says nothing to this kind of job. What stands in ndtrain.toml
// or the environment may be for another.
void refuse_flags_of_others(const Args& args, const std::string& kind) {
  std::vector<std::string> others = {"top-k", "only"};
  if (kind != "finetune") others = flags_of_finetune();
  if (kind == "eval") others.insert(others.end(), {"only", "dry-run"});
  if (kind == "refine") others.insert(others.end(), {"model", "top-k", "only"});
  for (const std::string& name : others) {
    if (args.said_here(name)) {
      throw UsageError("--" + name + " says nothing to the kind " + kind + "; leave it away");
    }
  }
}

}  // namespace

void declare_job_submit(ArgsSpec& args) {
  args.positional("KIND", "finetune, relabel, eval or refine");
  args.flag("m,model", "an ONNX file or a run directory (default: the task's version in force)",
            "MODEL");
  args.flag("stores",
            "which stores the job is for: all that the Tuner knows; N, so many; or their names, as "
            "attic,cellar",
            "all|N|NAMES", "all");
  args.flag("follow", "print what happens until the job has ended");
  args.flag("k,top-k", "relabel: the N best classes of each photo are kept", "N", "5");
  args.flag(
      "only",
      "relabel: all photos; stale, those that another version has labelled; or missing, those "
      "without any label",
      "WHICH", "all");
  args.flag(
      "dry-run",
      "relabel: only say how many photos, how long, and, from a sample, how many labels would "
      "change; refine: only list, reviews do not begin with these labels; finetune, with "
      "--controller: its decisions are logged, and nothing goes by them");
  args.flag("task",
            "the classifier: without -m its version in force is taken, and a fine-tuning publishes "
            "its next one",
            "NAME", std::string(kDefaultTask));
  args.flag("collection", "of the stores' photos, which take part, and of labels", "NAME",
            std::string(kDefaultCollection));
  declare_notes(args, "the job");
  args.flag("no-publish", "finetune: keep the model, and put nothing in force");
  args.flag("promote",
            "finetune: rule, put the new version in force when it is the first or better than the "
            "one that is, on the same validation photos and by more than chance, else it is the "
            "candidate; always, whatever it is worth",
            "WHEN", "rule");
  args.flag("candidate", "finetune: publish the model and wait for ndtrain model promote");
  declare_training(args, "r,runs");
  declare_http(args);
  declare_seed(args);
}

int run_job_submit(Context& context, const Args& args) {
  const TunerClient tuner(args);
  const std::string kind = args.required("KIND");
  refuse_flags_of_others(args, kind);
  const Notes notes = changed_notes({}, notes_of(args));
  Json json = {{"kind", kind}};
  if (args.has("model")) {
    const ModelFile model = load_model(context.fs(), args.text("model"));
    json["model"] = tuner.send_model(context.fs(), model.path);
  }
  json["stores"] = stores_of(args.text("stores"));
  json["seed"] = context.seed();
  if (kind == "finetune") {
    json["runs"] = args.integer("runs");
    json["publish"] = !args.on("no-publish");
    json["promote"] = promotion_of(args);
  } else {
    json["dry_run"] = args.on("dry-run");
    if (kind != "refine")
      json.update({{"top_k", args.integer("top-k")}, {"only", args.text("only")}});
  }
  json["task"] = args.text("task");
  json["collection"] = args.text("collection");
  JobSpec spec;
  try {
    spec = parse_job_spec(json_text(json));
    // An older Tuner does not say it.
    read_training(
        context, args, spec,
        {.room = [&] { return tuner.get("/readyz").value("room", int64_t{0}); },
         .stores =
             [&] {
               return args.has("profile") ? stores_measured_by(tuner, spec.collection)
                                          : stores_known_to(tuner, spec.collection);
             },
         .plan = [&](const JobSpec& job) { return tuner.post("/jobs/plan", job.text()); }});
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  const uint64_t id = tuner.post("/jobs", with_notes(spec, notes))["job"];
  if (!args.on("follow")) {
    context.print({{"job", id}},
                  fmt::format("job {}; ndtrain job show {} says how far it is\n", id, id));
    return kOk;
  }
  const Json job = follow(context, tuner, id);
  show(context, job);
  return exit_code(job);
}

void declare_job_ls(ArgsSpec& args) { declare_http(args); }
int run_job_ls(Context& context, const Args& args) {
  const Json jobs = TunerClient(args).get("/jobs");
  std::string text =
      fmt::format("{:>4}  {:<9} {:<9}  {:<14}  {}\n", "job", "kind", "state", "submitted", "");
  for (const Json& j : jobs) {
    text += fmt::format("{:>4}  {:<9} {:<9}  {:<14}  {}{}\n", j["job"].get<uint64_t>(),
                        j["kind"].get<std::string>(), j["state"].get<std::string>(),
                        when(j["submitted"]), brief(j), label_of(notes_in(j)));
  }
  context.print(jobs, text);
  return kOk;
}

void declare_job_show(ArgsSpec& args) {
  args.positional("JOB", "its number");
  args.flag("follow", "print what happens until the job has ended");
  declare_http(args);
}
int run_job_show(Context& context, const Args& args) {
  const TunerClient tuner(args);
  const uint64_t id = job_number(args);
  const Json job =
      args.on("follow") ? follow(context, tuner, id) : tuner.get(fmt::format("/jobs/{}", id));
  show(context, job);
  return args.on("follow") ? exit_code(job) : kOk;
}

void declare_job_cancel(ArgsSpec& args) {
  args.positional("JOB", "its number");
  declare_http(args);
}
int run_job_cancel(Context& context, const Args& args) {
  show(context, TunerClient(args).post(fmt::format("/jobs/{}/cancel", job_number(args))));
  return kOk;
}

void declare_job_pause(ArgsSpec& args) { declare_job_cancel(args); }
int run_job_pause(Context& context, const Args& args) {
  show(context, TunerClient(args).post(fmt::format("/jobs/{}/pause", job_number(args))));
  return kOk;
}

void declare_job_start_now(ArgsSpec& args) { declare_job_cancel(args); }
int run_job_start_now(Context& context, const Args& args) {
  show(context, TunerClient(args).post(fmt::format("/jobs/{}/start-now", job_number(args))));
  return kOk;
}

void declare_job_resume(ArgsSpec& args) {
  args.positional("JOB", "its number");
  args.flag("stores", "which stores it is for, if it has not begun (see ndtrain job submit)",
            "all|N|NAMES");
  args.flag("store-timeout", "seconds that it waits for a store that is away before it begins",
            "S");
  args.flag("lost-after", "from now on: seconds that a store may be away", "S");
  args.flag("allow-missing", "go on without the photos that only lost stores have");
  args.flag("memory", "finetune: features beyond this are streamed from disk", "BYTES");
  args.flag("disk", "finetune: the Tuner's disk may hold this much", "BYTES");
  args.flag("tuners", "finetune: so many Tuners train from now on, as many as its shards at most",
            "N");
  args.flag("sync", "finetune: and exchange gradients so (see ndtrain job submit)", "NAME");
  declare_http(args);
}
int run_job_resume(Context& context, const Args& args) {
  Json changes = Json::object();
  if (args.has("stores")) changes["stores"] = stores_of(args.text("stores"));
  if (args.has("store-timeout")) changes["store_timeout"] = args.number("store-timeout");
  if (args.has("lost-after")) changes["lost_after"] = args.number("lost-after");
  if (args.on("allow-missing")) changes["allow_missing"] = true;
  for (const char* bound : {"memory", "disk"}) {
    if (args.has(bound)) changes[bound] = static_cast<int64_t>(args.bytes(bound));
  }
  if (args.has("tuners")) changes["tuners"] = args.integer("tuners");
  if (args.has("sync")) changes["sync"] = args.text("sync");
  show(context, TunerClient(args).post(fmt::format("/jobs/{}/resume", job_number(args)),
                                       json_text(changes)));
  return kOk;
}

void declare_store_ls(ArgsSpec& args) { declare_http(args); }
int run_store_ls(Context& context, const Args& args) {
  const Json stores = TunerClient(args).get("/stores");
  const bool one = std::ranges::all_of(
      stores, [](const Json& s) { return s["collection"] == std::string(kDefaultCollection); });
  std::string text = fmt::format("{:<20} {:<8} {:>9}  {:>7}  {:<14}{}\n", "store", "state",
                                 "photos", "version", "last seen", one ? "" : "  collection");
  for (const Json& s : stores) {
    const bool here = s["here"], drained = s["drained"];
    text += fmt::format("{:<20} {:<8} {:>9}  {:>7}  {:<14}{}\n", s["store"].get<std::string>(),
                        drained ? "drained"
                        : here  ? "here"
                                : "away",
                        s["photos"].get<uint64_t>(), s["version_in_force"].get<uint64_t>(),
                        when(s["last_seen"]), one ? "" : "  " + s["collection"].get<std::string>());
    const std::string wrong = s.value("wrong_features", std::string());
    if (!wrong.empty()) text += fmt::format("  {}\n", wrong);
    if (const auto damaged = s.value("damaged", uint64_t{0}); damaged > 0) {  // an older Tuner's 0
      text += fmt::format("  its disk has changed {} photo{}: its log names them\n", damaged,
                          damaged == 1 ? "" : "s");
    }
    for (const auto& [task, version] : s["in_force"].items()) {
      if (task != std::string(kDefaultTask)) {
        text += fmt::format("{:>48}  of task {}\n", version.get<uint64_t>(), task);
      }
    }
  }
  context.print(stores, text);
  return kOk;
}

namespace {

void declare_store_name(ArgsSpec& args) {
  args.positional("STORE", "its name");
  declare_http(args);
}

}  // namespace

void declare_store_drain(ArgsSpec& args) {
  declare_store_name(args);
  args.flag("undo", "give it work again");
}
int run_store_drain(Context& context, const Args& args) {
  const Json json = TunerClient(args).post("/stores/" + args.required("STORE") +
                                           (args.on("undo") ? "/undrain" : "/drain"));
  context.print(json, table(json));
  return kOk;
}

void declare_store_forget(ArgsSpec& args) { declare_store_name(args); }
int run_store_forget(Context& context, const Args& args) {
  const Json json = TunerClient(args).remove("/stores/" + args.required("STORE"));
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
