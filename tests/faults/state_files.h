// The files that roles keep their state in, behind one interface: a set of things, each by a name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"

namespace ndtrain::faults {

// In the directory "state". One thread.
class StateFile {
 public:
  virtual ~StateFile() = default;
  // All of them and durable on return, or none of them. Throws Error too.
  virtual Status add(const std::vector<std::string>& names) = 0;
  virtual Status remove(const std::string& name) = 0;
  virtual Status tidy() { return {}; }  // rewrites the file, where that is done
  // Of "a" to "h"; one that is there twice is listed twice. Throws Error.
  virtual std::vector<std::string> names() = 0;
};

struct StateFileKind {
  const char* name;
  bool removes;                                     // else remove() is not called
  bool together;                                    // several are added all or none
  bool whole;                                       // what is refused is not there; else it may be
  std::unique_ptr<StateFile> (*open)(Fs&, Clock&);  // throws Error
};

const std::vector<StateFileKind>& state_file_kinds();      // logs and lists of both roles
const std::vector<StateFileKind>& job_state_file_kinds();  // of jobs, trainings and models
const std::vector<StateFileKind>& database_kinds();        // SQLite's, on the real file system

}  // namespace ndtrain::faults
