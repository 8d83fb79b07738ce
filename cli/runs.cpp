// What trainings have left behind: `ndtrain runs ls` and `show`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/note_args.h"
#include "cli/text_table.h"
#include "cli/verb.h"
#include "framework/core/log.h"
#include "framework/core/text.h"
#include "framework/core/utc_text.h"
#include "framework/train/class_quality.h"
#include "ndp/jobs/report.h"
#include "ndp/jobs/run_summary.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string when_begun(const RunSummary& run) {
  return run.started > 0 ? utc_text(run.started).substr(0, 16) : "-";
}

std::string how_far(const RunSummary& run) {
  const int64_t done = run.epochs.empty() ? 0 : run.epochs.back().epoch;
  return fmt::format("{}/{}", done, run.epochs_asked);
}

std::vector<RunSummary> runs_below(Fs& fs, std::vector<std::string> directories) {
  if (directories.empty()) {
    directories = {"runs"};
    if (!fs.exists("runs")) {
      throw UsageError("there is no directory runs here; give the one that runs are in");
    }
  }
  std::vector<RunSummary> runs;
  for (const std::string& directory : directories) {
    for (const std::string& path : find_runs(fs, directory)) {
      Result<RunSummary> run = read_run(fs, path);
      if (run.ok()) {
        runs.push_back(std::move(*run));
      } else {
        log::warn("left out: {}", printable(run.status().message()));
      }
    }
  }
  return runs;
}

// The oldest first, or the best, or by name; those that are equal by their paths.
void sort_runs(std::vector<RunSummary>& runs, const std::string& by) {
  std::ranges::stable_sort(runs, {}, &RunSummary::path);
  if (by == "time") {
    std::ranges::stable_sort(runs, {}, &RunSummary::started);
  } else if (by == "name") {
    std::ranges::stable_sort(runs, {}, [](const RunSummary& r) { return r.notes.name; });
  } else if (by == "top1") {
    std::ranges::stable_sort(runs, {},
                             [](const RunSummary& r) { return r.best ? -r.best->val->top1 : 1.0; });
  } else if (by == "loss") {
    std::ranges::stable_sort(
        runs, {}, [](const RunSummary& r) { return r.best ? r.best->val->loss : HUGE_VAL; });
  } else {
    throw UsageError("--sort " + by + ": there are time, name, top1 and loss");
  }
}

void add_fact(std::string& text, const std::string& key, const std::string& value) {
  if (!value.empty()) text += fmt::format("{:<12}  {}\n", key, printable(value));
}

std::string figures(const RunSummary& run) {
  std::string text;
  if (run.best) {
    const EpochRow::Validation& v = *run.best->val;
    add_fact(text, "best epoch", std::to_string(run.best->epoch));
    add_fact(text, "top-1", fmt::format("{:.4f}", v.top1));
    add_fact(text, "top-5", fmt::format("{:.4f}", v.top5));
    add_fact(text, "val loss", fmt::format("{:.4f}", v.loss));
  }
  if (!run.confusion.empty()) add_fact(text, "macro F1", macro_f1_text(run.confusion));
  if (!run.epochs.empty()) {
    double seconds = 0;
    for (const EpochRow& r : run.epochs) seconds += r.seconds;
    add_fact(text, "train loss", fmt::format("{:.4f}", run.epochs.back().train_loss));
    add_fact(text, "trained for", fmt::format("{:.1f} s", seconds));
  }
  return text;
}

std::string shown(const RunSummary& run) {
  std::string text;
  add_fact(text, "run", run.path);
  text += notes_text(run.notes);
  if (run.job > 0) add_fact(text, "job", std::to_string(run.job));
  add_fact(text, "started", run.started > 0 ? utc_text(run.started) : "");
  add_fact(text, "on", run.host);
  add_fact(text, "state", name_of(run.state));
  add_fact(text, "epochs", how_far(run));
  text += figures(run);
  add_fact(text, "photos", run.settings.photos);
  add_fact(text, "version", run.settings.version);
  add_fact(text, "directory", run.settings.directory);
  text += "\n";
  std::vector<std::vector<std::string>> settings = {{"setting", "value"}};
  for (const auto& [flag, value] : run.settings.asked) settings.push_back({flag_of(flag), value});
  return text + text_table(std::move(settings));
}

}  // namespace

void declare_runs_ls(ArgsSpec& args) {
  args.positionals("DIR",
                   "where to look, also below (default: runs); the state directory of a "
                   "Tuner has those of its jobs");
  args.flag("sort", "time, the oldest first; name; top1, the best first; or loss, the least first",
            "WHAT", "time");
  args.flag("tag", "only runs that have it; given again, both", "TAG");
}
int run_runs_ls(Context& context, const Args& args) {
  std::vector<RunSummary> runs = runs_below(context.fs(), args.list("DIR"));
  for (const std::string& tag : args.list("tag")) {
    std::erase_if(runs, [&](const RunSummary& r) { return !r.notes.has_tag(tag); });
  }
  sort_runs(runs, args.text("sort"));
  Json json = Json::array();
  std::vector<std::vector<std::string>> rows = {
      {"run", "name", "model", "started", "epochs", "state", "top-1", "epoch", "tags"}};
  for (const RunSummary& r : runs) {
    json.push_back(to_json(r));
    rows.push_back({r.path, r.notes.name, r.model(), when_begun(r), how_far(r), name_of(r.state),
                    r.best ? fmt::format("{:.4f}", r.best->val->top1) : "-",
                    r.best ? std::to_string(r.best->epoch) : "-", joined_tags(r.notes)});
  }
  if (runs.empty()) context.progress().say("there is no such run");
  context.print(json, text_table(std::move(rows)));
  return kOk;
}

void declare_runs_show(ArgsSpec& args) { args.positional("RUN", "its directory"); }
int run_runs_show(Context& context, const Args& args) {
  const RunSummary run = read_run(context.fs(), args.required("RUN")).or_throw();
  Json json = to_json(run);
  json["macro_f1"] = Json();
  if (const auto f1 = macro_f1(class_quality(run.confusion))) json["macro_f1"] = *f1;
  json["photos"] = run.settings.photos;
  json["version"] = run.settings.version;
  json["settings"] = settings_json(run.settings);
  json["history"] = epochs_json(run.epochs);
  context.print(json, shown(run));
  return kOk;
}

}  // namespace ndtrain::cli
