// The tasks of a Tuner: classifiers, each with classes, labels and versions of its own.
#include <fmt/format.h>

#include "cli/text_table.h"
#include "cli/tuner_client.h"
#include "cli/verb.h"
#include "framework/core/text.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string listed(const Json& values) {
  std::string text;
  for (const Json& v : values) {
    text += (text.empty() ? "" : ", ") + (v.is_string() ? v.get<std::string>() : json_text(v));
  }
  return text.empty() ? "-" : printable(text);
}

// What goes with the task, and who hears of it when.
std::string contents_of(const Json& t) {
  std::string text = fmt::format(
      "  labels    {}, {} of them by people, in {} classes\n"
      "  versions  {}\n"
      "  rules     {}\n"
      "  stores    {}",
      t["labels"].get<int64_t>(), t["by_people"].get<int64_t>(), t["classes"].get<int64_t>(),
      listed(t["versions"]), listed(t["rules"]), listed(t["stores"]));
  if (!t["away"].empty()) text += "; when they are back: " + listed(t["away"]);
  return text + "\nPhotos, jobs with their runs, and features stay.\n";
}

std::string path_of(const std::string& task) { return "/tasks/" + url_encoded(task); }

}  // namespace

void declare_task_ls(ArgsSpec& args) { declare_http(args); }

int run_task_ls(Context& context, const Args& args) {
  const Json all = TunerClient(args).get("/tasks");
  std::vector<std::vector<std::string>> rows = {
      {"task", "in force", "versions", "collections", "watched in", "labels at"}};
  for (const Json& t : all) {
    rows.push_back({t["task"], t["in_force"] == 0 ? "-" : json_text(t["in_force"]),
                    listed(t["versions"]), listed(t["collections"]), listed(t["rules"]),
                    listed(t["stores"])});
  }
  context.print(all, text_table(std::move(rows)));
  return kOk;
}

void declare_task_rm(ArgsSpec& args) {
  args.positional("NAME", "the task, as ndtrain task ls has it; default stays");
  args.flag("dry-run", "say what would go, and change nothing");
  declare_http(args);
}

int run_task_rm(Context& context, const Args& args) {
  const TunerClient tuner(args);
  const std::string task = args.required("NAME");
  if (args.on("dry-run")) {
    const Json would = tuner.get(path_of(task));
    const Json& refused = would["refused"];
    context.print(would, (refused.is_null() ? "with the task " + printable(task) + " would go\n"
                                            : "refused: " + refused.get<std::string>() + "\n") +
                             contents_of(would));
    return refused.is_null() ? kOk : kFailed;
  }
  const Json gone = tuner.remove(path_of(task));
  context.print(
      gone, "the task " + printable(task) + " is taken away, and with it\n" + contents_of(gone));
  return kOk;
}

}  // namespace ndtrain::cli
