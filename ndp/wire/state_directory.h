// What a role keeps on its disk. One process has the directory at a time; a newer format, or the
// directory of another role, is refused.
//
// DIR/state.json   {"role": "tuner", "format": 2, …, "checksum": "…"}: what the role itself must
//                  not forget; format 1 has no checksum, and becomes format 2 when it is opened
// DIR/lock
//
// A Tuner's whose state was brought into a database (tuner/state_move.h) has the role "moved
// tuner", which every program refuses, and {"moved": {"to": …, "id": …, "done": …}}.
//
// One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "ndp/wire/tuner_identity.h"

namespace ndtrain::ndp {

// state.json as text, in the format of this program, and what such a text says; kCorrupt, which
// does not name the file, when it is not as it was written.
std::string state_text(Json state);
Result<Json> parse_state(std::string_view text);

inline constexpr const char* kMovedTuner = "moved tuner";
// Of a state.json with that role, for people.
std::string refusal_of_moved(const std::string& directory, const Json& state);
// Ok where there is no such state.json.
Status demand_not_moved(Fs& fs, const std::string& directory);

class StateDirectory {
 public:
  // Made if absent. kExists: another process has it; kUnsupported: of another role or format;
  // kCorrupt.
  static Result<StateDirectory> open(Fs& fs, const std::string& path, const std::string& role);

  std::string file(const std::string& name) const { return join(path_, name); }
  const std::string& path() const { return path_; }

  // A Tuner that starts: its identity (drawn from `random` the first time) with a new term, which
  // is durable on return, and `random` as the number of this start.
  Result<TunerIdentity> next_term(uint64_t random);

  // The Tuner that a PipeStore knows.
  Result<TunerIdentity> known_tuner() const;
  Status remember(const TunerIdentity& tuner);

 private:
  StateDirectory(Fs& fs, std::string path, std::string role)
      : fs_(&fs), path_(std::move(path)), role_(std::move(role)) {}

  Fs* fs_;
  std::string path_, role_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace ndtrain::ndp
