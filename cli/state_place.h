// Where the state is that a verb works on: a directory, or a database that Tuners share.
#pragma once

#include <memory>
#include <string>

#include "cli/context.h"
#include "framework/core/fs.h"

namespace ndtrain::cli {

struct StatePlace {
  std::unique_ptr<Fs> database;  // null: a directory of this machine
  std::string directory;

  Fs& fs() { return database ? *database : real_fs(); }
};

// Of "DIR" or "postgresql://…". What is written there is refused once another Tuner takes over.
// Throws Error: no Tuner has a state in this database, it is away; the directory was moved to one.
StatePlace state_place(const std::string& state);

// Throws Error for a database: `instead` says what does there what the verb does.
void demand_directory_of_state(const std::string& state, const std::string& instead);

}  // namespace ndtrain::cli
