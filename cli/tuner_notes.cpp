// Names, notes and tags of a Tuner's jobs and versions.
#include <fmt/format.h>

#include <algorithm>

#include "cli/note_args.h"
#include "cli/tuner_client.h"
#include "cli/verb.h"
#include "framework/core/json.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

int change_noted(Context& context, const Args& args, const char* of, const char* where,
                 const NotesChange& change) {
  const std::string number = args.required(of);
  if (number.size() > 18 || number.find_first_not_of("0123456789") != std::string::npos) {
    throw UsageError(std::string(of) + " " + number + ": a number");
  }
  const Json answer = TunerClient(args).post(fmt::format("/{}/{}/notes", where, number),
                                             json_text(to_json(change)));
  context.print(answer, notes_text(notes_in(answer)));
  return kOk;
}

}  // namespace

void declare_job_note(ArgsSpec& args) {
  args.positional("JOB", "its number");
  declare_note_text(args);
  declare_http(args);
}
int run_job_note(Context& context, const Args& args) {
  return change_noted(context, args, "JOB", "jobs", note_text_of(args));
}

void declare_job_tag(ArgsSpec& args) {
  args.positional("JOB", "its number");
  declare_tag_words(args);
  declare_http(args);
}
int run_job_tag(Context& context, const Args& args) {
  return change_noted(context, args, "JOB", "jobs", tag_words_of(args));
}

void declare_model_note(ArgsSpec& args) {
  args.positional("VERSION", "its number");
  declare_note_text(args);
  declare_http(args);
}
int run_model_note(Context& context, const Args& args) {
  return change_noted(context, args, "VERSION", "versions", note_text_of(args));
}

void declare_model_tag(ArgsSpec& args) {
  args.positional("VERSION", "its number");
  declare_tag_words(args);
  declare_http(args);
}
int run_model_tag(Context& context, const Args& args) {
  return change_noted(context, args, "VERSION", "versions", tag_words_of(args));
}

}  // namespace ndtrain::cli
