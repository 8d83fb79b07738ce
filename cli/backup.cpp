#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/archive.h"
#include "cli/restored_term.h"
#include "cli/state_backup.h"
#include "cli/state_place.h"
#include "cli/verb.h"
#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "ndp/pipestore/daemon.h"
#include "ndp/wire/state_directory.h"
#include "ndp/wire/tuner_identity.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr char kState[] = "state.json";

}  // namespace

void declare_backup(ArgsSpec& args) {
  args.positional("STATE", "the state directory; its process may go on with its work");
  args.flag("o,out", "a zstd-compressed tar, which must not be there yet (required)", "FILE");
  args.flag("all",
            "also what would be computed again: cached features, those of finished jobs; of a role "
            "that is stopped");
}

int run_backup(Context& context, const Args& args) {
  Fs& fs = context.fs();
  const std::string path = args.required("STATE"), out = args.required("out");
  demand_directory_of_state(path, "pg_dump saves it, and the labels that are in it, of one moment");
  const std::string role = role_of_state(fs, path);
  if (role == kRoleOfSeveral) {
    throw Error(path, " has a directory for each store: back up each, as ", path, "/NAME");
  }
  if (fs.exists(out)) throw Error(out, " exists; a backup replaces nothing");
  const Result<StateDirectory> state = StateDirectory::open(fs, path, role);
  const bool at_work = state.status().code() == Code::kExists;
  if (!at_work) state.status().or_throw();
  if (at_work && args.on("all")) {
    throw Error(state.status().message(), "; stop it, or leave --all out: what is computed again ",
                "is copied only while nobody writes it");
  }
  const BackedUp done =
      back_up(fs, context.clock(),
              {.state = path, .role = role, .out = out, .at_work = at_work, .all = args.on("all")});
  std::string text =
      fmt::format("{} of a {}{}: {} files, {} bytes, in {} bytes\n", out, role,
                  at_work ? ", which goes on" : "", done.files, done.bytes, done.archive_bytes);
  for (const std::string& name : done.left_out) {
    text += name + " is left out: it is computed again when needed" +
            (at_work ? "\n" : " (--all takes it too)\n");
  }
  if (role == "tuner" && !done.labels) {
    text +=
        "no labels.db is in it: there is none yet, or --db puts the labels elsewhere; then save ";
    text += "them now, after this, by that database's own tools (pg_dump)\n";
  }
  context.print({{"archive", out},
                 {"role", role},
                 {"at_work", at_work},
                 {"files", done.files},
                 {"bytes", done.bytes},
                 {"archive_bytes", done.archive_bytes},
                 {"labels", done.labels},
                 {"left_out", done.left_out}},
                text);
  return kOk;
}

void declare_restore(ArgsSpec& args) {
  args.positional("FILE", "what ndtrain backup wrote");
  args.flag("o,out", "the state directory, which must be absent or empty (required)", "STATE");
}

int run_restore(Context& context, const Args& args) {
  Fs& fs = context.fs();
  const std::string file = args.required("FILE");
  std::string out = args.required("out");
  demand_directory_of_state(out, "a Tuner whose state is in a database is saved by pg_dump");
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  if (fs.exists(out) &&
      !(fs.info(out).or_throw().is_directory && fs.list(out).or_throw().empty())) {
    throw Error(out, " exists and is not empty; a restore replaces nothing");
  }
  const std::string part = out + ".restoring";
  if (fs.exists(part)) {
    throw Error(part, " is of a restore that was cut short, or goes on; remove it");
  }
  fs.make_directories(part).or_throw();
  std::vector<std::string> names;
  std::string role;
  try {
    names = unpack(fs, file, part);
    role = role_of_state(fs, part);
    // Refuses another format; opening it would come too late.
    StateDirectory::open(fs, part, role).status().or_throw();
    check_restored(fs, part);
    if (role == "tuner") raise_term(fs, join(part, kState), context.clock().unix_seconds());
  } catch (const std::exception&) {
    std::filesystem::remove_all(part);
    throw;
  }
  fs.rename(part, out).or_throw();
  const std::string parent = parent_of(out);
  fs.sync_directory(parent.empty() ? "." : parent);
  context.print(
      {{"state", out}, {"role", role}, {"files", names.size()}},
      fmt::format("{} is the state of a {}, {} files, all as they were saved{}\n", out, role,
                  names.size(),
                  role == "tuner" ? "; PipeStores will take it for the newest Tuner" : ""));
  return kOk;
}

}  // namespace ndtrain::cli
