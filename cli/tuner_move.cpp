#include <fmt/format.h>

#include "cli/state_check.h"
#include "cli/state_place.h"
#include "cli/verb.h"
#include "framework/core/json.h"
#include "tuner/shared_state.h"
#include "tuner/state_move.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

// What a disk has changed would be as durable there as the rest.
void demand_whole_state(Context& context, const std::string& state) {
  // What else forbids it is said when it is moved.
  if (!context.fs().exists(join(state, "state.json"))) return;
  const auto lock = context.fs().lock(join(state, "lock"));
  if (lock.status().code() == Code::kExists) return;
  lock.status().or_throw();
  const CheckedState found = check_state(context.fs(), state, "tuner", false, context.progress());
  for (const DamagedFile& f : found.damaged) {
    if (f.derived) continue;
    throw Error(join(state, f.file), ": ", f.what, "; put it right first (ndtrain fsck ", state,
                " names all)");
  }
}

int64_t moved_bytes(const MovedState& moved) {
  int64_t bytes = 0;
  for (const auto& [path, file] : moved.files) bytes += file.bytes;
  return bytes;
}

Json moved_json(const MovedState& moved, const std::string& state, const std::string& to,
                bool dry) {
  Json labels = Json::object();
  for (const LabelTable& t : moved.labels) {
    labels[t.name] = {{"rows", t.rows}, {"sha256", to_hex(t.digest)}};
  }
  return {{"state", state},
          {"to", to},
          {"dry_run", dry},
          {"was_done", moved.was_done},
          {"files", moved.files.size()},
          {"bytes", moved_bytes(moved)},
          {"labels", labels},
          {"labels_were_there", moved.has_labels_there},
          {"left_out", moved.left_out}};
}

std::string moved_text(const MovedState& moved, const std::string& state, const std::string& to,
                       bool dry) {
  if (moved.was_done) return fmt::format("{} is in {}, and was before\n", state, to);
  std::string text = fmt::format("{} {} {}: {} files, {} bytes{}\n", state,
                                 dry ? "would be moved to" : "is moved to", to, moved.files.size(),
                                 moved_bytes(moved), dry ? "" : ", which were read again there");
  for (const LabelTable& t : moved.labels) {
    if (t.rows > 0) text += fmt::format("  {:<14}{} rows\n", t.name, t.rows);
  }
  if (moved.has_labels_there) text += "the labels are in that database already\n";
  for (const std::string& path : moved.left_out) {
    text += path + " is left out: stores send it again when it is needed\n";
  }
  if (dry) return text + "nothing was changed\n";
  return text + state +
         " stays as it is, but serves no more; from now on: ndtrain tuner serve --standby "
         "--state " +
         to + " --scratch DIR\n";
}

}  // namespace

void declare_tuner_move(ArgsSpec& args) {
  args.positional("STATE", "the state directory of a Tuner that is stopped");
  args.flag("to",
            "the database, which has no state yet; labels may be in it, where --db of the Tuner "
            "named it (required)",
            "postgresql://USER@HOST/DATABASE");
  args.flag("db",
            "where its labels are, as --db of the Tuner said (default: sqlite:STATE/labels.db, or "
            "the database)",
            "URL");
  args.flag("dry-run", "says what would be moved, and what forbids it; nothing is changed");
}

int run_tuner_move(Context& context, const Args& args) {
  const std::string state = args.required("STATE");
  demand_directory_of_state(state, "what is moved is a directory");
  const StateMove move{.directory = state, .url = args.required("to"), .labels = args.text("db")};
  if (!is_shared_state(move.url)) {
    throw UsageError("--to " + move.url + ": postgresql://USER@HOST/DATABASE");
  }
  demand_whole_state(context, state);
  const bool dry = args.on("dry-run");
  const MovedState moved =
      dry ? look_at_move(context.fs(), move) : move_state(context.fs(), context.clock(), move);
  const std::string to = postgres::without_password(move.url);
  context.print(moved_json(moved, state, to, dry), moved_text(moved, state, to, dry));
  return kOk;
}

}  // namespace ndtrain::cli
