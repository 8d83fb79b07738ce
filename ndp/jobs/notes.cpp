#include "ndp/jobs/notes.h"

#include <algorithm>
#include <set>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/publish.h"
#include "framework/core/text.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kShown = 60;  // bytes of a refused text

void demand_length(const char* what, const std::string& text, int64_t most) {
  if (std::ssize(text) <= most) return;
  throw Error(what, " '", printable(text, kShown), "' has ", text.size(), " bytes; take at most ",
              most);
}

void check_name(const std::string& name) {
  demand_length("the name", name, limits::kName);
  if (!is_plain(name)) {
    throw Error("the name '", printable(name, kShown),
                "': take UTF-8 on one line, without control characters");
  }
}

void check_note(const std::string& note) {
  demand_length("the note", note, limits::kNote);
  std::string text = note;
  std::ranges::replace(text, '\n', ' ');
  if (!is_plain(text)) {
    throw Error("the note '", printable(note, kShown),
                "': take UTF-8 without control characters other than line feeds");
  }
}

void check_tag(const std::string& tag) {
  demand_length("the tag", tag, limits::kTag);
  const bool ok = !tag.empty() && is_plain(tag) && tag.find_first_of(" ,") == std::string::npos &&
                  tag[0] != '+' && tag[0] != '-';
  if (ok) return;
  throw Error("the tag '", printable(tag, kShown),
              "': take UTF-8 without spaces, commas and control characters, and no + or - at the "
              "beginning");
}

std::string text_in(const Json& json, const std::string& key) {
  if (!json.is_string()) throw Error(key, " ", json_text_replacing(json), ": not a text");
  return json.get<std::string>();
}

std::vector<std::string> tags_in(const Json& json, const std::string& key) {
  if (!json.is_array()) throw Error(key, " ", json_text_replacing(json), ": not a list of tags");
  std::vector<std::string> tags;
  for (const Json& tag : json) tags.push_back(text_in(tag, key));
  return tags;
}

}  // namespace

bool Notes::has_tag(const std::string& tag) const { return std::ranges::count(tags, tag) > 0; }

Notes changed_notes(Notes notes, const NotesChange& change) {
  if (change.name) check_name(notes.name = *change.name);
  if (change.note) check_note(notes.note = *change.note);
  std::set<std::string> tags(notes.tags.begin(), notes.tags.end());
  for (const std::string& tag : change.remove) {
    if (tags.erase(tag) == 0) throw Error("there is no tag '", printable(tag, kShown), "' here");
  }
  for (const std::string& tag : change.add) {
    check_tag(tag);
    tags.insert(tag);
  }
  if (std::ssize(tags) > limits::kTags) {
    throw Error(tags.size(), " tags; take at most ", limits::kTags);
  }
  notes.tags.assign(tags.begin(), tags.end());
  return notes;
}

Json to_json(const Notes& notes) {
  return {{"name", notes.name}, {"note", notes.note}, {"tags", notes.tags}};
}

Notes notes_of(const Json& json) {
  if (!json.is_object()) throw Error("notes: not a JSON object");
  NotesChange said;
  for (const auto& [key, value] : json.items()) {
    if (key == "name") {
      said.name = text_in(value, key);
    } else if (key == "note") {
      said.note = text_in(value, key);
    } else if (key == "tags") {
      said.add = tags_in(value, key);
    } else {
      throw Error("notes: there is no ", printable(key, kShown));
    }
  }
  return changed_notes({}, said);
}

NotesChange parse_notes_change(std::string_view text) {
  const Result<Json> json = read_json(text);
  if (!json.ok()) throw Error("notes: ", json.status().message());
  if (!json->is_object()) throw Error("notes: not a JSON object");
  NotesChange change;
  for (const auto& [key, value] : json->items()) {
    if (key == "name") {
      change.name = text_in(value, key);
    } else if (key == "note") {
      change.note = text_in(value, key);
    } else if (key == "add") {
      change.add = tags_in(value, key);
    } else if (key == "remove") {
      change.remove = tags_in(value, key);
    } else {
      throw Error("notes: there is no ", printable(key, kShown),
                  "; there are name, note, add and remove");
    }
  }
  return change;
}

Result<Notes> read_notes(Fs& fs, const std::string& directory) {
  const std::string path = join(directory, kNotesFile);
  const Result<std::string> text = fs.read(path, limits::kJsonText);
  if (text.status().code() == Code::kNotFound) return Notes();
  if (!text.ok()) return text.status();
  try {
    read_json(*text).status().or_throw();  // not too much, nor too deep
    return notes_of(verified(*text));
  } catch (const Error& e) {
    return Status(Code::kCorrupt, path + ": " + e.what());
  }
}

Status write_notes(Fs& fs, const std::string& directory, const Notes& notes) {
  return publish(fs, join(directory, kNotesFile), checksummed(to_json(notes)));
}

}  // namespace ndtrain::ndp
