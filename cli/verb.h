// What a verb of the program is. One file per verb; verbs.cpp and
// local_verbs.cpp list them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "cli/args.h"
#include "cli/context.h"

namespace ndtrain::cli {

// And kFsyncFailedStatus of core/fsync.h, 5; kLeaseLostStatus of ndp/postgres/lease_lost.h, 6.
enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kQuarantined = 3, kInterrupted = 4 };

struct Verb {
  std::string_view name;      // "train", "model inspect"
  std::string_view summary;   // one line of `ndtrain --help`
  std::string_view usage;     // "DATA -m MODEL -o RUN [options]"
  std::string_view examples;  // whole commands, one per line
  void (*declare)(ArgsSpec& args);
  int (*run)(Context& context, const Args& args);  // an ExitCode; throws Error
};

// Under one heading of `ndtrain --help`, with its neighbours of the same.
struct VerbSection {
  std::string_view heading;
  std::span<const Verb> verbs;
};

// Of the program, in the order of its help.
std::span<const VerbSection> verb_sections();
std::span<const Verb> verbs();  // all of them
// Those that one machine can run alone.
std::span<const Verb> local_verbs();
std::span<const Verb> local_model_verbs();
std::span<const Verb> local_bench_verbs();
std::span<const Verb> local_help_verbs();

// The verb that the first words name, of which there are `taken` then; or null.
const Verb* find_verb(std::span<const std::string> words, size_t& taken);

}  // namespace ndtrain::cli
