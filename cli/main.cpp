#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "cli/help_text.h"
#include "cli/progress_bar.h"
#include "cli/settings.h"
#include "cli/unknown_verb.h"
#include "cli/verb.h"
#include "framework/core/error.h"
#include "ndp/sandbox/decode_worker.h"
#include "ndp/sandbox/model_worker.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

int run(std::vector<std::string> words) {
  if (words.empty()) {
    std::fputs(overview().c_str(), stderr);
    return kUsage;
  }
  // No verbs: for this program alone.
  if (words[0] == kDecodeWorker) return serve_decoding();
  if (words[0] == kModelWorker) return serve_importing();
  if (words[0] == "--help" || words[0] == "-h") {
    std::fputs(overview().c_str(), stdout);
    return kOk;
  }
  if (words[0] == "--version") words[0] = "version";
  size_t taken = 0;
  const Verb* verb = find_verb(words, taken);
  if (!verb && words.size() == 2 && (words[1] == "--help" || words[1] == "-h")) {
    words = {"help", words[0]};
    verb = find_verb(words, taken);
  }
  if (!verb) unknown_verb(words);
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(taken));
  check_settings(verbs());
  ArgsSpec spec(verb->name);
  verb->declare(spec);
  try {
    const Args args(spec, words);
    if (args.on("help")) {
      std::fputs(help_text(*verb).c_str(), stdout);
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
