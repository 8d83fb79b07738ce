#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "cli/progress_bar.h"
#include "cli/settings.h"
#include "cli/suggest.h"
#include "cli/verb.h"
#include "framework/core/error.h"

namespace ndtrain::cli {
namespace {

std::string overview() {
  std::string out =
      "ndtrain " NDT_VERSION
      ": train and relabel where the photos live\n\nUsage: ndtrain VERB [options]\n\n";
  size_t width = 0;
  for (const Verb& v : verbs()) width = std::max(width, v.name.size());
  for (const Verb& v : verbs()) {
    out += "  " + std::string(v.name) + std::string(width - v.name.size() + 2, ' ') +
           std::string(v.summary) + "\n";
  }
  return out +
         "\nndtrain VERB --help shows a verb's options and examples. Options are also read from "
         "ndtrain.toml\nin the working directory (epochs = 30; under [train] or [\"job submit\"] "
         "for "
         "one verb alone) and\nfrom the environment (NDTRAIN_EPOCHS=30). What no verb knows there "
         "is "
         "an error.\n\n"
         "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 done, but something was left out, 4 "
         "interrupted\nand resumable, 5 an fsync failed.\n";
}

// The verb that the first words name, and how many words that took.
const Verb* find_verb(const std::vector<std::string>& words, size_t& taken) {
  for (taken = std::min<size_t>(2, words.size()); taken > 0; --taken) {
    const std::string name = taken == 2 ? words[0] + " " + words[1] : words[0];
    for (const Verb& v : verbs()) {
      if (v.name == name) return &v;
    }
  }
  return nullptr;
}

[[noreturn]] void unknown_verb(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  std::string family;
  for (const Verb& v : verbs()) {
    names.emplace_back(v.name);
    if (v.name.starts_with(words[0] + " "))
      family += (family.empty() ? "" : ", ") + std::string(v.name);
  }
  const std::string two =
      words.size() > 1 && !words[1].starts_with("-") ? words[0] + " " + words[1] : words[0];
  if (!family.empty() && two == words[0]) {
    throw UsageError("'" + two + "' needs a second word: " + family);
  }
  std::string near = nearest(two, names);
  if (near.empty()) near = nearest(words[0], names);
  std::string what = "there is no verb '" + (family.empty() ? words[0] : two) + "'";
  if (!near.empty()) {
    what += "; did you mean 'ndtrain " + near + "'?";
  } else if (!family.empty()) {
    what += "; there are " + family;
  } else {
    what += "; ndtrain --help lists them";
  }
  throw UsageError(what);
}

void show_help(const Verb& verb, ArgsSpec& spec) {
  std::printf("ndtrain %s: %s\n\nUsage: ndtrain %s %s\n%s\nExamples:\n%s",
              std::string(verb.name).c_str(), std::string(verb.summary).c_str(),
              std::string(verb.name).c_str(), std::string(verb.usage).c_str(),
              Args::help(spec).c_str(), std::string(verb.examples).c_str());
}

int run(std::vector<std::string> words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::fputs(overview().c_str(), words.empty() ? stderr : stdout);
    return words.empty() ? kUsage : kOk;
  }
  if (words[0] == "--version") words[0] = "version";
  size_t taken = 0;
  const Verb* verb = find_verb(words, taken);
  if (!verb) unknown_verb(words);
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(taken));
  check_settings(verbs());
  ArgsSpec spec(verb->name);
  verb->declare(spec);
  try {
    const Args args(spec, words);
    if (args.on("help")) {
      show_help(*verb, spec);
      return kOk;
    }
    Context context(args);
    return verb->run(context, args);
  } catch (const UsageError& e) {
    throw UsageError(std::string(e.what()) + "\nndtrain " + std::string(verb->name) +
                     " --help shows what it takes");
  }
}

// The last word of a thread that main() cannot see.
[[noreturn]] void say_why_it_ends() {
  try {
    if (const std::exception_ptr why = std::current_exception()) std::rethrow_exception(why);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ndtrain: %s\n", e.what());
  } catch (...) {
  }
  std::abort();
}

}  // namespace
}  // namespace ndtrain::cli

int main(int argc, char** argv) {
  using namespace ndtrain::cli;  // NOLINT: main has to live outside
  std::set_terminate(say_why_it_ends);
  catch_interrupts();
  try {
    return run({argv + 1, argv + argc});
  } catch (const UsageError& e) {
    std::fprintf(stderr, "ndtrain: %s\n", e.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "ndtrain: out of memory; a smaller -b or --memory-limit helps\n");
    return kFailed;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ndtrain: %s\n", e.what());
    return kFailed;
  }
}
