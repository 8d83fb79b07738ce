// What a Tuner has published, and what is in force.
#include <fmt/format.h>

#include <algorithm>

#include "cli/class_falls.h"
#include "cli/note_args.h"
#include "cli/tuner_client.h"
#include "cli/verb.h"
#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "ndp/labels/version_name.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

uint64_t version_in(const Args& args, const char* name) {
  const std::string text = args.required(name);
  if (text.empty() || text.size() > 18 ||
      text.find_first_not_of("0123456789") != std::string::npos) {
    throw UsageError(fmt::format("{} {}: a number, see ndtrain model ls", name, text));
  }
  return std::stoull(text);
}

std::string joined(const Json& names) {
  std::string text;
  for (const Json& name : names) text += (text.empty() ? "" : ", ") + name.get<std::string>();
  return text;
}

std::string top1(const Json& metrics) {
  return metrics.contains("top1") && metrics["top1"].is_number()
             ? fmt::format("{:.4f}", metrics["top1"].get<double>())
             : "-";
}

// As the Tuner says it: "3 (5f2a0c91d4e7)".
std::string name_of(const Json& version) {
  return full_version_name(version["version"].get<int64_t>(),
                           digest_from_hex(version["content"].get<std::string>()));
}

// An earlier Tuner has one task, and does not say so.
std::string task_of(const Json& version) {
  return version.value("task", std::string(kDefaultTask));
}

std::string task_query(const Args& args) {
  const std::string task = args.text("task");
  return task.empty() ? "" : "?task=" + url_encoded(task);
}

std::string in_force_line(const Json& version) {
  const std::string task = task_of(version);
  return fmt::format("version {} is in force{}; stores that are away get it when they are back\n",
                     name_of(version), task == kDefaultTask ? "" : " of the task " + task);
}

// What the Tuner says of two versions.
std::string diff_text(const Json& d) {
  std::string text =
      fmt::format("top-1 {} -> {}\n", top1(d["metrics_from"]), top1(d["metrics_to"]));
  if (!d["classes_added"].empty()) text += "classes added: " + joined(d["classes_added"]) + "\n";
  if (!d["classes_removed"].empty()) {
    text += "classes removed: " + joined(d["classes_removed"]) + "\n";
  }
  if (d["metrics_to"].value("compared_with", uint64_t{0}) == d["from"]) {
    text += class_falls_text(d["metrics_to"]);
  }
  for (const Json& f : d["files"]) {
    const std::string name = f["file"];
    if (f["same"]) {
      text += fmt::format("{}: the same file, {} bytes\n", name, f["to_bytes"].get<int64_t>());
      continue;
    }
    text += fmt::format("{}: {} bytes -> {} bytes, ", name, f["from_bytes"].get<int64_t>(),
                        f["to_bytes"].get<int64_t>());
    if (f.contains("no_delta")) {
      text += "no delta: " + f["no_delta"].get<std::string>() + "\n";
      continue;
    }
    text += fmt::format("as a delta {}\n", f["delta_bytes"].get<int64_t>());
    for (const Json& t : f["changed"]) {
      text += fmt::format("  {:<40} {:<10} {:>10} bytes, {:>10} in the delta\n",
                          t["tensor"].get<std::string>(), t["change"].get<std::string>(),
                          t["bytes"].get<int64_t>(), t["delta_bytes"].get<int64_t>());
    }
  }
  return text;
}

// What promoting a version would change, as ndtrain model diff has it; `from` is 0 where nothing of
// its task is in force.
Json promotion(const TunerClient& tuner, uint64_t version) {
  const std::string path = fmt::format("/versions/{}", version);
  const std::string task = task_of(tuner.get(path));
  for (const Json& v : tuner.get("/versions")) {
    if (task_of(v) != task) continue;
    for (const Json& alias : v["aliases"]) {
      if (alias != "production") continue;
      return tuner.get(fmt::format("/versions/{}/diff/{}", v["version"].get<uint64_t>(), version));
    }
  }
  return {{"from", 0}, {"to", version}};
}

std::string promotion_text(const Json& d) {
  if (d["from"] == 0) return "nothing is in force yet: it would be the first\n";
  return fmt::format("instead of version {}:\n", d["from"].get<uint64_t>()) + diff_text(d);
}

}  // namespace

void declare_model_ls(ArgsSpec& args) {
  args.flag("task", "versions of this classifier alone", "NAME");
  declare_http(args);
}
int run_model_ls(Context& context, const Args& args) {
  const Json versions = TunerClient(args).get("/versions" + task_query(args));
  const bool by_task =
      std::ranges::any_of(versions, [](const Json& v) { return task_of(v) != ndp::kDefaultTask; });
  const auto task_column = [by_task](const std::string& task) {
    return by_task ? fmt::format("{:<12}  ", task) : "";
  };
  std::string text =
      fmt::format("{:>7}  {}{:<12}  {:>6}  {:>5}  {:>7}  {:>7}  {:>10}  {:<21}  {}\n", "version",
                  task_column("task"), "content", "parent", "job", "classes", "top-1", "bytes",
                  "alias", "in force on");
  for (const Json& v : versions) {
    text += fmt::format("{:>7}  {}{:<12}  {:>6}  {:>5}  {:>7}  {:>7}  {:>10}  {:<21}  {}{}\n",
                        v["version"].get<uint64_t>(), task_column(task_of(v)),
                        v["content"].get<std::string>().substr(0, 12),
                        v["parent"] == 0 ? "-" : std::to_string(v["parent"].get<uint64_t>()),
                        v["job"].get<uint64_t>(), v["classes"].get<uint64_t>(), top1(v["metrics"]),
                        v["bytes"].get<int64_t>(), joined(v["aliases"]), joined(v["stores"]),
                        label_of(notes_in(v)));
  }
  context.print(versions, text);
  return kOk;
}

void declare_model_diff(ArgsSpec& args) {
  args.positional("FROM", "a version's number");
  args.positional("TO", "another's");
  declare_http(args);
}
int run_model_diff(Context& context, const Args& args) {
  const Json d = TunerClient(args).get(
      fmt::format("/versions/{}/diff/{}", version_in(args, "FROM"), version_in(args, "TO")));
  context.print(d, diff_text(d));
  return kOk;
}

void declare_model_promote(ArgsSpec& args) {
  args.positional("VERSION", "its number");
  args.flag("candidate", "make it the candidate, and leave what is in force");
  args.flag("dry-run", "only say what differs from the version in force, as ndtrain model diff");
  declare_http(args);
}
int run_model_promote(Context& context, const Args& args) {
  const bool candidate = args.on("candidate");
  if (candidate && args.on("dry-run")) {
    throw UsageError("--dry-run and --candidate: a candidate changes nothing; give one");
  }
  const TunerClient tuner(args);
  const uint64_t number = version_in(args, "VERSION");
  if (args.on("dry-run")) {
    const Json d = promotion(tuner, number);
    context.print(d, promotion_text(d));
    return kOk;
  }
  const Json version =
      tuner.post(fmt::format("/versions/{}/{}", number, candidate ? "candidate" : "production"));
  context.print(version, candidate ? fmt::format("version {} is the candidate\n", name_of(version))
                                   : in_force_line(version));
  return kOk;
}

void declare_model_rollback(ArgsSpec& args) {
  args.flag("task", "of this classifier", "NAME", std::string(kDefaultTask));
  declare_http(args);
}
int run_model_rollback(Context& context, const Args& args) {
  const Json version = TunerClient(args).post("/versions/rollback" + task_query(args));
  context.print(version, in_force_line(version));
  return kOk;
}

void declare_model_rm(ArgsSpec& args) {
  args.positional("VERSION", "its number");
  declare_http(args);
}
int run_model_rm(Context& context, const Args& args) {
  const Json json =
      TunerClient(args).remove(fmt::format("/versions/{}", version_in(args, "VERSION")));
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
