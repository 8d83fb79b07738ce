#include "cli/note_args.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/json.h"
#include "framework/core/text.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// What is wrong with a name, a note or a tag is so whatever there is already.
NotesChange checked(NotesChange change) {
  try {
    (void)changed_notes(
        {}, {.name = change.name, .note = change.note, .add = change.add, .remove = {}});
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  return change;
}

}  // namespace

void declare_notes(ArgsSpec& args, const std::string& of) {
  const ArgsSpec::Heading heading(args, "Names and notes");
  args.flag("name", "what people call " + of, "NAME");
  args.flag("note", "what there is to say of " + of, "TEXT");
  args.flag("tag", "a word to find " + of + " by; may be given again", "TAG");
}

NotesChange notes_of(const Args& args) {
  NotesChange change;
  if (args.given("name")) change.name = args.text("name");
  if (args.given("note")) change.note = args.text("note");
  change.add = args.list("tag");
  return checked(std::move(change));
}

void declare_note_text(ArgsSpec& args) {
  args.positional("TEXT", "the note, instead of the one there is; '' takes it away");
  args.flag("name", "what people call it; '' takes it away", "NAME");
}

NotesChange note_text_of(const Args& args) {
  NotesChange change;
  if (args.given("TEXT")) change.note = args.text("TEXT");
  if (args.given("name")) change.name = args.text("name");
  if (!change.note && !change.name) throw UsageError("TEXT is missing; or give --name");
  return checked(std::move(change));
}

void declare_tag_words(ArgsSpec& args) {
  args.positionals("TAGS", "+TAG adds it, -TAG takes it away");
  args.minus_words();
}

NotesChange tag_words_of(const Args& args) {
  NotesChange change;
  for (const std::string& word : args.list("TAGS")) {
    if (word.starts_with('+')) {
      change.add.push_back(word.substr(1));
    } else if (word.starts_with('-')) {
      change.remove.push_back(word.substr(1));
    } else {
      throw UsageError("TAGS " + word + ": say +" + word + " to add it, -" + word +
                       " to take it away");
    }
  }
  if (change.add.empty() && change.remove.empty()) {
    throw UsageError("TAGS is missing: +TAG adds one, -TAG takes one away");
  }
  return checked(std::move(change));
}

std::string joined_tags(const Notes& notes) {
  std::string text;
  for (const std::string& tag : notes.tags) text += (text.empty() ? "" : " ") + printable(tag);
  return text;
}

std::string notes_text(const Notes& notes) {
  std::string text;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<12}  {}\n", key, printable(value));
  };
  add("name", notes.name);
  for (size_t at = 0; at < notes.note.size();) {
    const size_t end = std::min(notes.note.find('\n', at), notes.note.size());
    add(at == 0 ? "note" : "", notes.note.substr(at, end - at));
    at = end + 1;
  }
  add("tags", joined_tags(notes));
  return text;
}

Notes notes_in(const Json& answer) {
  Json json = Json::object();
  for (const char* key : {"name", "note", "tags"}) {
    if (answer.contains(key)) json[key] = answer.at(key);
  }
  return ndp::notes_of(json);
}

std::string label_of(const Notes& notes) {
  std::string text = notes.name.empty() ? "" : "  " + printable(notes.name);
  if (!notes.tags.empty()) text += "  [" + joined_tags(notes) + "]";
  return text;
}

Json to_json(const NotesChange& change) {
  Json json = {{"add", change.add}, {"remove", change.remove}};
  if (change.name) json["name"] = *change.name;
  if (change.note) json["note"] = *change.note;
  return json;
}

}  // namespace ndtrain::cli
