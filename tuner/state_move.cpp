#include "tuner/state_move.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/labels/label_db.h"
#include "ndp/postgres/state_lease.h"
#include "ndp/wire/role_loop.h"
#include "ndp/wire/state_directory.h"
#include "tuner/shared_state.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr char kStateJson[] = "state.json";
constexpr char kMovedJson[] = "moved.json";  // in the database: which move has brought the state
constexpr char kLabelsDb[] = "labels.db";
constexpr char kSqliteUrl[] = "sqlite:";
// More starts than a copy of the directory is given by mistake, and fewer than a restored Tuner is
// ahead: stores have nothing to say again.
constexpr uint64_t kTermsOfMove = kTermsOfRestore / 4;

Json tuner_state_in(Fs& fs, const std::string& directory) {
  const std::string path = join(directory, kStateJson);
  if (!fs.exists(path)) throw Error(directory, " is no state of a Tuner: it has no ", kStateJson);
  Result<Json> json = parse_state(fs.read(path).or_throw());
  if (!json.ok()) throw Error(path, ": ", json.status().message());
  const std::string role = json->value("role", "");
  if (role != "tuner" && role != kMovedTuner) {
    throw Error(directory, " is the state of a ", role, ", not of a tuner");
  }
  return std::move(*json);
}

void put_tuner_state(Fs& fs, const std::string& directory, const Json& state) {
  publish(fs, join(directory, kStateJson), state_text(state)).or_throw();
}

// What a move has made of it, and what it was.
Json marked_as_moved(Json state, const std::string& to, const std::string& id, bool done) {
  state["role"] = kMovedTuner;
  state["moved"] = {{"to", to}, {"id", id}, {"done", done}};
  return state;
}
Json in_force_again(Json state) {
  state["role"] = "tuner";
  state.erase("moved");
  return state;
}
bool is_marked_as_moved(const Json& state) { return state.value("role", "") == kMovedTuner; }
std::string said_of_move(const Json& state, const char* key) {
  return state.at("moved").at(key).get<std::string>();
}

// Whether the transaction of this move was committed. Throws Error where nobody can say.
bool has_come_there(const std::string& url, const std::string& id) {
  try {
    const std::optional<std::string> text = postgres::settled_file(url, kMovedJson);
    return text && parse_json(*text).value("id", "") == id;
  } catch (const sql::Failure& failure) {
    throw Error("whether the state has come to ", postgres::without_password(url),
                " cannot be said: ", failure.status.message(),
                "; ndtrain tuner move, said once more, settles it");
  }
}

// So that nobody serves from the directory, or changes its tokens, meanwhile.
class MoveLocks {
 public:
  MoveLocks(Fs& fs, const std::string& directory) {
    take(fs, join(directory, "lock"), directory + " belongs to another running tuner; stop it");
    const std::string busy = "somebody changes the tokens of " + directory + "; say it again";
    take(fs, join(directory, "tokens.lock"), busy);
    take(fs, join(directory, "audit.lock"), busy);
  }

 private:
  void take(Fs& fs, const std::string& path, const std::string& why) {
    Result<std::unique_ptr<FileLock>> lock = fs.lock(path);
    if (lock.status().code() == Code::kExists) throw Error(why);
    held_.push_back(std::move(lock).or_throw());
  }
  std::vector<std::unique_ptr<FileLock>> held_;
};

// Other processes', or what they were to become.
bool is_left_behind(const std::string& path) {
  const std::string name = name_of_path(path);
  if (is_temporary(name)) return true;
  for (const char* own : {"lock", "tokens.lock", "audit.lock", kStateJson, kMovedJson}) {
    if (path == own) return true;
  }
  return path == kLabelsDb || path.starts_with(std::string(kLabelsDb) + "-");
}

struct FilesToMove {
  std::vector<std::pair<std::string, FileInfo>> all;  // directories before what is in them
  std::vector<std::string> left_out;                  // the topmost of each
};

void find_files_to_move(Fs& fs, const std::string& root, const std::string& below,
                        FilesToMove& found) {
  for (const std::string& name : fs.list(below.empty() ? root : join(root, below)).or_throw()) {
    const std::string path = join(below, name);
    if (is_left_behind(path)) continue;
    if (is_scratch(path)) {
      found.left_out.push_back(path);
      continue;
    }
    const FileInfo info = fs.info(join(root, path)).or_throw();
    found.all.emplace_back(path, info);
    if (info.is_directory) find_files_to_move(fs, root, path, found);
  }
}

// The file that has the labels; "": the database that the state goes to.
std::string labels_to_move(Fs& fs, const StateMove& move, bool there) {
  const std::string own = join(move.directory, kLabelsDb);
  std::string file = fs.exists(own) ? own : "";
  if (move.labels == move.url) return "";  // where they are, whatever lies beside the state
  if (!move.labels.empty()) {
    if (!move.labels.starts_with(kSqliteUrl)) {
      throw Error("--db ", postgres::without_password(move.labels),
                  ": the labels go where the state goes; bring them there by pg_dump first");
    }
    file = move.labels.substr(sizeof kSqliteUrl - 1);
    if (!fs.exists(file)) throw Error(file, ": there is no such file");
  }
  if (!file.empty() && there) {
    throw Error("the database has labels, and so has ", file, "; give it another database");
  }
  if (file.empty() && !there && fs.exists(join(move.directory, "jobs"))) {
    throw Error(own, " is not there: --db says where the labels of this Tuner are");
  }
  return file;
}

// Throws Error, and sql::Failure.
struct MoveTarget {
  explicit MoveTarget(const StateMove& move) : db(move.url, "SET client_min_messages = warning") {
    if (postgres::has_state(db)) {
      throw Error(postgres::without_password(move.url),
                  " has the state of a Tuner already; give it another database");
    }
    labels = has_labels(db);
  }
  postgres::Connection db;
  bool labels = false;
};

class StateMover {
 public:
  StateMover(Fs& fs, const StateMove& move) : fs_(fs), move_(move) {}

  // Commits, with `state` as state.json there.
  MovedState run(Json state, const std::string& id, int64_t now) {
    MoveTarget place(move_);
    const std::string labels = labels_to_move(fs_, move_, place.labels);
    MovedState done;
    done.has_labels_there = place.labels;
    postgres::StateRows rows(place.db);
    try {
      copy_files(rows, done);
      if (state.contains("term")) state["term"] = state.at("term").get<uint64_t>() + kTermsOfMove;
      rows.file(kStateJson, state_text(std::move(state)), now);
      rows.file(kMovedJson, json_text(Json({{"id", id}, {"from", move_.directory}})), now);
      if (!labels.empty()) {
        sql::Database from(labels);
        done.labels = copy_labels(from, place.db, [&](const std::string& t) { step(t); });
      }
      done.files = rows.read_back([&](const std::string& path) { step("compares " + path); });
      if (done.files != rows.written()) throw Error("the database has other bytes than were sent");
      step("commits");
      place.db.commit();
    } catch (...) {
      place.db.rollback();
      throw;
    }
    step("has committed");
    return done;
  }

 private:
  void step(const std::string& what) const {
    if (move_.step) move_.step(what);
  }

  void copy_files(postgres::StateRows& rows, MovedState& done) {
    FilesToMove found;
    find_files_to_move(fs_, move_.directory, "", found);
    for (const auto& [path, info] : found.all) {
      if (info.is_directory) {
        rows.directory(path);
        continue;
      }
      step(path);
      const auto file = fs_.open(join(move_.directory, path), Fs::Mode::kRead).or_throw();
      rows.file(path, info, *file);
    }
    done.left_out = std::move(found.left_out);
  }

  Fs& fs_;
  const StateMove& move_;
};

// Before anything is marked_as_moved. Throws Error.
void check_move(Fs& fs, const StateMove& move) {
  try {
    const MoveTarget place(move);
    (void)labels_to_move(fs, move, place.labels);
  } catch (const sql::Failure& failure) {
    throw Error(failure.status.message());
  }
}

// As StateMover says it, where it says it as a database does.
MovedState run_move(Fs& fs, const StateMove& move, const Json& state, const std::string& id,
                    int64_t now) {
  try {
    // The tables are empty when it begins: what is in them counts once it is committed.
    (void)postgres::StateLease::look(move.url).or_throw();
    (void)open_label_db(move.url).or_throw();
    return StateMover(fs, move).run(state, id, now);
  } catch (const sql::Failure& failure) {
    throw Error(failure.status.message());
  }
}

}  // namespace

MovedState look_at_move(Fs& fs, const StateMove& move) {
  const Json state = tuner_state_in(fs, move.directory);
  const MoveLocks locks(fs, move.directory);
  demand_not_moved(fs, move.directory).or_throw();
  try {
    MoveTarget place(move);
    MovedState would;
    would.has_labels_there = place.labels;
    const std::string labels = labels_to_move(fs, move, place.labels);
    if (!labels.empty()) {
      sql::Database from(labels);
      would.labels = label_tables_of(from);
    }
    FilesToMove found;
    find_files_to_move(fs, move.directory, "", found);
    for (const auto& [path, info] : found.all) {
      if (!info.is_directory) would.files[path] = {.bytes = info.size};
    }
    would.left_out = std::move(found.left_out);
    return would;
  } catch (const sql::Failure& failure) {
    throw Error(failure.status.message());
  }
}

MovedState move_state(Fs& fs, Clock& clock, const StateMove& move) {
  (void)tuner_state_in(fs, move.directory);  // it is one
  const MoveLocks locks(fs, move.directory);
  Json state = tuner_state_in(fs, move.directory);
  const std::string to = postgres::without_password(move.url);
  if (is_marked_as_moved(state)) {
    const bool done = state.at("moved").value("done", false);
    if (said_of_move(state, "to") != to) throw Error(refusal_of_moved(move.directory, state));
    const std::string id = said_of_move(state, "id");
    if (done || has_come_there(move.url, id)) {
      if (!done) put_tuner_state(fs, move.directory, marked_as_moved(state, to, id, true));
      return {.was_done = true};
    }
    state = in_force_again(std::move(state));
  }
  check_move(fs, move);
  const std::string id = std::to_string(random_bits());
  const auto step = [&](const std::string& what) {
    if (move.step) move.step(what);
  };
  step("marks the directory");
  put_tuner_state(fs, move.directory, marked_as_moved(state, to, id, false));
  MovedState done;
  try {
    done = run_move(fs, move, state, id, clock.unix_seconds() * 1'000'000'000);
  } catch (const Error&) {
    if (has_come_there(move.url, id)) {
      log::warn("the state has come to {}, though its server did not say so", to);
      put_tuner_state(fs, move.directory, marked_as_moved(state, to, id, true));
      return {.was_done = true};
    }
    put_tuner_state(fs, move.directory, state);
    throw;
  }
  put_tuner_state(fs, move.directory, marked_as_moved(state, to, id, true));
  step("is done");
  return done;
}

void settle_move(Fs& fs, const std::string& directory) {
  if (demand_not_moved(fs, directory).code() != Code::kUnsupported) return;
  const MoveLocks locks(fs, directory);
  const Json state = tuner_state_in(fs, directory);
  if (!is_marked_as_moved(state)) return;
  if (state.at("moved").value("done", false)) throw Error(refusal_of_moved(directory, state));
  const std::string to = said_of_move(state, "to"), id = said_of_move(state, "id");
  if (has_come_there(to, id)) {
    put_tuner_state(fs, directory, marked_as_moved(state, to, id, true));
    throw Error(refusal_of_moved(directory, tuner_state_in(fs, directory)));
  }
  put_tuner_state(fs, directory, in_force_again(state));
  log::warn("{} was to be moved to {}, which was cut short: it is in force as before", directory,
            to);
}

}  // namespace ndtrain::tuner
