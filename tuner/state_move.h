// A Tuner's state, brought from its directory into a PostgreSQL database (shared_state.h), labels
// and all, by one transaction: docs/decisions/108-a-directory-moves-in-one-transaction.md. Which of
// the two is in force is what that transaction's end decides, whenever this process is killed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/labels/label_move.h"
#include "ndp/postgres/state_rows.h"

namespace ndtrain::tuner {
using namespace ndp;

struct StateMove {
  std::string directory;
  std::string url;          // "postgresql://…"
  std::string labels = {};  // as --db: "": STATE/labels.db, or what the database has
  // Told what is done next; what it throws is as if the process ended there.
  std::function<void(const std::string&)> step = {};
};

struct MovedState {
  bool was_done = false;              // earlier: nothing was done now, nothing below is known
  postgres::StateFiles files;         // by path below the state
  std::vector<std::string> left_out;  // that stores send again
  bool has_labels_there = false;      // the database has them already
  std::vector<LabelTable> labels;     // that were copied
};

// Throws Error where it cannot be moved: another process has it, the database has another state.
// Nothing is changed.
MovedState look_at_move(Fs& fs, const StateMove& move);

// On return the directory is out of force for good, and the database has all of it. Throws Error:
// the directory is in force as before, or, where its database could not be asked any more, it is
// not known which of the two is, and this or settle_move() finds out.
MovedState move_state(Fs& fs, Clock& clock, const StateMove& move);

// Of a directory whose move was cut short: puts it in force again where the database says that
// nothing has come there. Throws Error where it has, or does not answer. Nothing to do for others.
void settle_move(Fs& fs, const std::string& directory);

}  // namespace ndtrain::tuner
