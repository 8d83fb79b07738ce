// What people say of a run, a job or a model version: a name, a note and tags. None of it decides
// a result, and nothing that goes on or is repeated compares it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"

namespace ndtrain {
namespace limits {

inline constexpr int64_t kName = 100;   // bytes of a name; plain text on one line
inline constexpr int64_t kNote = 4000;  // bytes of a note; plain text, on several lines too
inline constexpr int64_t kTags = 20;    // of one thing
inline constexpr int64_t kTag = 50;     // bytes of one; without spaces and commas

}  // namespace limits

namespace ndp {

inline constexpr const char* kNotesFile = "notes.json";

struct Notes {
  std::string name, note;
  std::vector<std::string> tags;  // in byte order, each once

  bool empty() const { return name.empty() && note.empty() && tags.empty(); }
  bool has_tag(const std::string& tag) const;
  bool operator==(const Notes&) const = default;
};

struct NotesChange {
  std::optional<std::string> name, note;  // "" takes it away
  std::vector<std::string> add, remove;   // tags
};

// Throws Error for what is longer, or more, than the limits above or not plain text, and for a tag
// to remove that is not there.
Notes changed_notes(Notes notes, const NotesChange& change);

// {"name": ..., "note": ..., "tags": [...]}.
Json to_json(const Notes& notes);
// Throws Error naming the key that is unknown or no text, and as changed_notes().
Notes notes_of(const Json& json);
// {"name": ..., "note": ..., "add": [...], "remove": [...]}, each of which may lack. Throws Error.
NotesChange parse_notes_change(std::string_view json);

// notes.json of a directory; empty where there is none. kCorrupt.
Result<Notes> read_notes(Fs& fs, const std::string& directory);
// Durable on return, or the former ones hold.
Status write_notes(Fs& fs, const std::string& directory, const Notes& notes);

}  // namespace ndp
}  // namespace ndtrain
