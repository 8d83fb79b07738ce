// What a verb of the program is. One file per verb; verbs.cpp and
// local_verbs.cpp list them.
#pragma once

#include <span>
#include <string_view>

#include "cli/args.h"
#include "cli/context.h"

namespace ndtrain::cli {

// And kFsyncFailedStatus of core/fsync.h, 5.
enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kQuarantined = 3, kInterrupted = 4 };

struct Verb {
  std::string_view name;      // "train", "model inspect"
  std::string_view summary;   // one line of `ndtrain --help`
  std::string_view usage;     // "DATA -m MODEL -o RUN [options]"
  std::string_view examples;  // whole commands, one per line
  void (*declare)(ArgsSpec& args);
  int (*run)(Context& context, const Args& args);  // an ExitCode; throws Error
};

std::span<const Verb> verbs();  // of the program, in the order of its help
// Those of them that one machine can run alone.
std::span<const Verb> local_verbs();
std::span<const Verb> local_model_verbs();
std::span<const Verb> local_bench_verbs();

}  // namespace ndtrain::cli
