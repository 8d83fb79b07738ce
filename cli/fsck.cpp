#include <fmt/format.h>

#include "cli/state_backup.h"
#include "cli/state_check.h"
#include "cli/state_place.h"
#include "cli/verb.h"
#include "ndp/pipestore/daemon.h"
#include "ndp/wire/state_directory.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

Json to_json(const DamagedFile& f) {
  return {{"file", f.file},
          {"what", f.what},
          {"derived", f.derived},
          {"removed", f.removed},
          {"mended", f.mended}};
}

std::string line_of(const DamagedFile& f, const std::string& role) {
  const char* const then = f.removed   ? "removed: it is made again"
                           : f.mended  ? "counted again"
                           : f.derived ? "--repair makes it again"
                                       : "put back a backup of it";
  return fmt::format("{}: {}\n  {}{}\n", f.file, f.what, then,
                     f.removed && role == "pipestore" ? " when the store starts" : "");
}

std::string text_of(const CheckedState& found, const std::string& state, const std::string& role) {
  std::string text;
  for (const DamagedFile& f : found.damaged) text += line_of(f, role);
  const size_t unchecked = found.unchecked.size();
  text += fmt::format("{}: {} files of a {}, {} bytes: {}\n", state, found.files, role, found.bytes,
                      found.damaged.empty() ? "all are as they were written"
                      : found.damaged.size() == 1
                          ? "one is not as it was written"
                          : fmt::format("{} are not as they were written", found.damaged.size()));
  if (unchecked > 0) {
    text += fmt::format("{} without a checksum: logs, reports, what trainings wrote\n", unchecked);
  }
  return text;
}

// By what else is there where state.json does not say it any more.
std::string role_of_files(Fs& fs, const std::string& state) {
  try {
    const std::string role = role_of_state(fs, state);
    return role == kMovedTuner ? "tuner" : role;
  } catch (const Error&) {
    if (!fs.exists(join(state, "state.json"))) throw;
    for (const char* const name : {"cache", "in_force.json", "uploads"}) {
      if (fs.exists(join(state, name))) return "pipestore";
    }
    for (const char* const name : {"jobs", "versions.json", "stores.json", "labels.db"}) {
      if (fs.exists(join(state, name))) return "tuner";
    }
    throw;
  }
}

}  // namespace

void declare_fsck(ArgsSpec& args) {
  args.positional("STATE", "the state directory of a role that is stopped");
  args.flag("repair",
            "remove damaged files that the role makes, or gets, again: features, crops, lists of "
            "photos, what stores hold, a store's models; count labels again where their counts "
            "are others");
}

int run_fsck(Context& context, const Args& args) {
  Fs& fs = context.fs();
  const std::string path = args.required("STATE");
  demand_directory_of_state(path,
                            "what its server checks are pages (initdb --data-checksums, "
                            "pg_amcheck)");
  const std::string role = role_of_files(fs, path);
  if (role == kRoleOfSeveral) {
    throw Error(path, " has a directory for each store: check each, as ", path, "/NAME");
  }
  // Not StateDirectory::open(), which may write, and opens none whose state.json is damaged.
  const Result<std::unique_ptr<FileLock>> lock = fs.lock(join(path, "lock"));
  if (lock.status().code() == Code::kExists) {
    throw Error(path, " belongs to another running ", role, "; stop it first");
  }
  lock.status().or_throw();
  const CheckedState found = check_state(fs, path, role, args.on("repair"), context.progress());
  if (context.progress().interrupted()) return kInterrupted;
  Json damaged = Json::array();
  for (const DamagedFile& f : found.damaged) damaged.push_back(to_json(f));
  context.print({{"directory", path},
                 {"role", role},
                 {"files", found.files},
                 {"bytes", found.bytes},
                 {"unchecked", found.unchecked},
                 {"damaged", damaged}},
                text_of(found, path, role));
  return found.whole() ? kOk : kFailed;
}

}  // namespace ndtrain::cli
