// `ndtrain runs note` and `runs tag`.
#include "cli/note_args.h"
#include "cli/verb.h"
#include "framework/core/json.h"
#include "ndp/jobs/run_summary.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

int change_run(Context& context, const Args& args, const NotesChange& change) {
  const RunSummary run = read_run(context.fs(), args.required("RUN")).or_throw();
  if (run.job > 0) {
    throw Error(run.path, " is of job ", run.job,
                " of a Tuner, which keeps what is said of it: ", "ndtrain job note ", run.job,
                " and ndtrain job tag ", run.job);
  }
  const Notes now = changed_notes(run.notes, change);
  write_notes(context.fs(), run.path, now).or_throw();
  context.print(to_json(now), notes_text(now));
  return kOk;
}

}  // namespace

void declare_runs_note(ArgsSpec& args) {
  args.positional("RUN", "its directory");
  declare_note_text(args);
}
int run_runs_note(Context& context, const Args& args) {
  return change_run(context, args, note_text_of(args));
}

void declare_runs_tag(ArgsSpec& args) {
  args.positional("RUN", "its directory");
  declare_tag_words(args);
}
int run_runs_tag(Context& context, const Args& args) {
  return change_run(context, args, tag_words_of(args));
}

}  // namespace ndtrain::cli
