#include "ndp/jobs/run_summary.h"

#include <algorithm>
#include <charconv>

#include "framework/core/csv.h"
#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/utc_text.h"
#include "ndp/jobs/toml.h"

namespace ndtrain::ndp {
namespace {

constexpr int kDeepest = 12;  // directories in each other

int64_t whole_number(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? n : 0;
}

// Without touching it: nothing is locked longer than this looks.
bool is_locked(Fs& fs, const std::string& path) {
  const Result<std::unique_ptr<File>> file = fs.open(path, Fs::Mode::kRead);
  return file.ok() && (*file)->lock().code() == Code::kExists;
}

// A job's spec, as settings: "weight_decay" is --weight-decay.
Result<RunSettings> read_job_settings(Fs& fs, const std::string& path) {
  const Result<std::string> text = fs.read(path, limits::kJsonText);
  if (!text.ok()) return text.status();
  const Result<Json> spec = read_json(*text);
  if (!spec.ok() || !spec->is_object()) {
    return Status(Code::kCorrupt, path + ": is no spec of a job");
  }
  RunSettings s;
  for (const auto& [key, value] : spec->items()) {
    std::string flag = key;
    std::ranges::replace(flag, '_', '-');
    s.asked.emplace_back(flag, value.is_string() ? value.get<std::string>() : json_text(value));
  }
  s.model = s.text("model");
  return s;
}

uint64_t job_in(const std::string& args) {
  try {
    return static_cast<uint64_t>(parse_toml(args)["job"].value_or(int64_t{0}));
  } catch (const Error&) {
    return 0;
  }
}

void read_env(Fs& fs, RunSummary& run) {
  const Result<std::string> text = fs.read(join(run.path, "env.json"), limits::kJsonText);
  if (!text.ok()) return;
  const Result<Json> env = read_json(*text);
  if (!env.ok() || !env->is_object()) return;
  const auto value = [&](const char* key) {
    const auto it = env->find(key);
    return it != env->end() && it->is_string() ? it->get<std::string>() : "";
  };
  run.host = value("host");
  run.started = from_utc_text(value("started")).value_or(0);
}

void read_epochs(Fs& fs, RunSummary& run) {
  const Result<std::string> text = fs.read(join(run.path, "metrics.jsonl"));
  int64_t damaged = 0;
  if (text.ok()) run.epochs = parse_metrics(*text, &damaged);
  if (damaged > 0) {
    log::warn("{}/metrics.jsonl: {} of its rows are damaged and left out", run.path, damaged);
  }
  for (const EpochRow& row : run.epochs) {
    if (row.val && (!run.best || row.val->top1 > run.best->val->top1)) run.best = row;
  }
  const RunSettings& s = run.settings;
  const int64_t runs = run.job > 0 ? std::max<int64_t>(1, whole_number(s.text("runs"))) : 1;
  run.epochs_asked = whole_number(s.text("epochs")) * runs;
}

// By --patience, before all epochs.
bool lost_patience(const RunSummary& run) {
  const int64_t patience = whole_number(run.settings.text("patience"));
  return patience > 0 && run.best && run.epochs.back().epoch - run.best->epoch >= patience;
}

RunState state_of(Fs& fs, const RunSummary& run) {
  if (is_locked(fs, join(run.path, "lock"))) return RunState::kTraining;
  const bool trained =
      !run.epochs.empty() && (run.epochs.back().epoch >= run.epochs_asked || lost_patience(run));
  return trained && fs.exists(join(run.path, "model.onnx")) ? RunState::kDone
                                                            : RunState::kInterrupted;
}

// `above`: the inodes of the directories that it lies in, so that a link to one of them ends.
void find_below(Fs& fs, const std::string& directory, std::vector<uint64_t>& above,
                std::vector<std::string>& found) {
  const Result<std::vector<std::string>> names = fs.list(directory);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.starts_with('.')) continue;
    const std::string path = join(directory, name);
    const Result<FileInfo> info = fs.info(path);
    if (!info.ok() || !info->is_directory) continue;
    if (is_run(fs, path)) {
      found.push_back(path);
    } else if (std::ranges::count(above, info->inode) == 0 && std::ssize(above) < kDeepest) {
      above.push_back(info->inode);
      find_below(fs, path, above, found);
      above.pop_back();
    }
  }
}

}  // namespace

const char* name_of(RunState state) {
  return state == RunState::kTraining ? "training"
         : state == RunState::kDone   ? "done"
                                      : "interrupted";
}

std::string RunSummary::model() const {
  return job > 0 ? settings.model.substr(0, 12) : settings.text("model");
}

bool is_run(Fs& fs, const std::string& directory) { return fs.exists(join(directory, kRunArgs)); }

Result<RunSummary> read_run(Fs& fs, const std::string& directory) {
  const std::string args = join(directory, kRunArgs);
  const Result<std::string> text = fs.read(args, limits::kLabelsFile);
  if (text.status().code() == Code::kNotFound) {
    return Status(Code::kNotFound, directory +
                                       ": is no run; ndtrain runs ls DIR lists those in a "
                                       "directory");
  }
  if (!text.ok()) return text.status();
  RunSummary run{.path = directory, .notes = {}, .settings = {}};
  const std::string spec = join(directory, "job.json");
  if (fs.exists(spec)) run.job = job_in(*text);
  Result<RunSettings> settings =
      run.job > 0 ? read_job_settings(fs, spec) : read_run_settings(fs, directory);
  if (!settings.ok()) return settings.status();
  run.settings = std::move(*settings);
  Result<Notes> notes = read_notes(fs, run.job > 0 ? parent_of(directory) : directory);
  if (!notes.ok()) return notes.status();
  run.notes = std::move(*notes);
  read_env(fs, run);
  read_epochs(fs, run);
  Result<Confusion> confusion = read_confusion(fs, directory);
  if (!confusion.ok()) return confusion.status();
  run.classes = std::move(confusion->classes);
  run.confusion = std::move(confusion->counts);
  run.state = state_of(fs, run);
  return run;
}

Result<Confusion> read_confusion(Fs& fs, const std::string& directory) {
  const std::string path = join(directory, "confusion.csv");
  Confusion c;
  const Result<std::string> text = fs.read(path, limits::kLabelsFile);
  if (text.status().code() == Code::kNotFound) return c;
  if (!text.ok()) return text.status();
  const auto corrupt = [&](const CsvReader& csv) {
    return Status(Code::kCorrupt,
                  path + ": line " + std::to_string(csv.line()) + " is none of a confusion matrix");
  };
  CsvReader csv(*text);
  const auto header = csv.next();
  if (!header || header->size() < 2 || header->front() != "truth") return corrupt(csv);
  c.classes.assign(header->begin() + 1, header->end());
  while (const auto row = csv.next()) {
    const size_t at = c.counts.size() / c.classes.size();
    if (at == c.classes.size() || row->size() != header->size() || row->front() != c.classes[at]) {
      return corrupt(csv);
    }
    for (size_t i = 1; i < row->size(); ++i) c.counts.push_back(whole_number((*row)[i]));
  }
  if (c.counts.size() != c.classes.size() * c.classes.size()) return corrupt(csv);
  return c;
}

std::vector<std::string> find_runs(Fs& fs, const std::string& directory) {
  if (is_run(fs, directory)) return {directory};
  fs.list(directory).status().or_throw();
  std::vector<uint64_t> above = {fs.info(directory).or_throw().inode};
  std::vector<std::string> found;
  find_below(fs, directory, above, found);
  return found;
}

Json to_json(const RunSummary& run) {
  Json json = {{"run", run.path},
               {"name", run.notes.name},
               {"note", run.notes.note},
               {"tags", run.notes.tags},
               {"job", run.job > 0 ? Json(run.job) : Json()},
               {"model", run.model()},
               {"started", run.started > 0 ? Json(run.started) : Json()},
               {"state", name_of(run.state)},
               {"epochs", run.epochs.empty() ? 0 : run.epochs.back().epoch},
               {"epochs_asked", run.epochs_asked > 0 ? Json(run.epochs_asked) : Json()},
               {"top1", Json()},
               {"top5", Json()},
               {"val_loss", Json()},
               {"best_epoch", Json()}};
  if (run.best) {
    json["top1"] = run.best->val->top1;
    json["top5"] = run.best->val->top5;
    json["val_loss"] = run.best->val->loss;
    json["best_epoch"] = run.best->epoch;
  }
  return json;
}

Json settings_json(const RunSettings& settings) {
  Json json = Json::object();
  for (const auto& [flag, value] : settings.asked) json[flag] = value;
  return json;
}

Json epochs_json(const std::vector<EpochRow>& epochs) {
  Json rows = Json::array();
  for (const EpochRow& r : epochs) rows.push_back(to_json(r));
  return rows;
}

}  // namespace ndtrain::ndp
