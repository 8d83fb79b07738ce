// What people say of runs, jobs and versions, as flags and words: ndp/jobs/notes.h.
#pragma once

#include <string>

#include "cli/args.h"
#include "framework/core/json_fwd.h"
#include "ndp/jobs/notes.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_notes(ArgsSpec& args, const std::string& of);  // --name, --note, --tag; "the run"
NotesChange notes_of(const Args& args);                     // throws UsageError

void declare_note_text(ArgsSpec& args);      // TEXT and --name
NotesChange note_text_of(const Args& args);  // throws UsageError, also where neither is given
void declare_tag_words(ArgsSpec& args);      // +TAG and -TAG
NotesChange tag_words_of(const Args& args);  // throws UsageError

std::string joined_tags(const Notes& notes);  // "a b"
std::string notes_text(const Notes& notes);  // lines "name  …"; what moves a cursor is written out

// As a Tuner answers them in a job or a version; an older one says nothing of them. Throws Error.
Notes notes_in(const Json& answer);
std::string label_of(const Notes& notes);  // for the end of a line: "  Roses  [july x]"; or ""
Json to_json(const NotesChange& change);   // as a Tuner takes it

}  // namespace ndtrain::cli
