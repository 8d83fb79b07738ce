#include "ndp/wire/state_directory.h"

#include <algorithm>

#include "framework/core/checksummed_json.h"
#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "framework/core/publish.h"

namespace ndtrain::ndp {
namespace {

constexpr int kFormatWithoutChecksum = 1, kFormat = 2;

// Null when there is no file yet.
Result<Json> read_state(Fs& fs, const std::string& path) {
  const Result<std::string> text = fs.read(path);
  if (text.status().code() == Code::kNotFound) return Json();
  if (!text.ok()) return text.status();
  Result<Json> json = parse_state(*text);
  if (!json.ok()) return Status(json.status().code(), path + ": " + json.status().message());
  return json;
}

Status write_state(Fs& fs, const std::string& path, const Json& json) {
  return publish(fs, path, state_text(json));
}

std::string bytes_from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}
std::string hex_of(const std::string& bytes) {
  return to_hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

// What `f` makes of the JSON, or kCorrupt when a key is absent or of another kind.
template <typename F>
auto reading(const std::string& path, F f) -> Result<decltype(f())> {
  try {
    return f();
  } catch (const std::exception& e) {
    return Status(Code::kCorrupt, path + ": " + e.what());
  }
}

}  // namespace

std::string state_text(Json state) {
  state["format"] = kFormat;
  return checksummed(std::move(state));
}

Result<Json> parse_state(std::string_view text) {
  try {
    const Json written = try_parse_json(text);
    Json state = verified(text);
    if (!state.is_object()) return Status(Code::kCorrupt, "is damaged: it is no JSON object");
    const bool older = state.contains("format") && state["format"] == kFormatWithoutChecksum;
    if (older || written.contains("checksum")) return state;
    return Status(Code::kCorrupt,
                  "is damaged, or was edited: it has no checksum; put back a backup");
  } catch (const Error& e) {
    return Status(Code::kCorrupt, e.what());
  }
}

std::string refusal_of_moved(const std::string& directory, const Json& state) {
  const Json moved = state.value("moved", Json::object());
  const std::string to = moved.is_object() ? moved.value("to", "a database") : "a database";
  if (moved.is_object() && moved.value("done", false)) {
    return directory + " was moved: the state of this Tuner is in " + to +
           "; ndtrain tuner serve --standby --state " + to + " serves it";
  }
  return directory + " was on its way to " + to + " when that was cut short; ndtrain tuner move " +
         directory + " --to " + to +
         " does it, and ndtrain tuner serve goes on here if nothing has come there";
}

Status demand_not_moved(Fs& fs, const std::string& directory) {
  const Result<Json> json = read_state(fs, join(directory, "state.json"));
  if (!json.ok()) return json.status();
  if (!json->is_object() || json->value("role", "") != kMovedTuner) return {};
  return {Code::kUnsupported, refusal_of_moved(directory, *json)};
}

Result<StateDirectory> StateDirectory::open(Fs& fs, const std::string& path,
                                            const std::string& role) {
  if (const Status s = fs.make_directories(path); !s.ok()) return s;
  StateDirectory d(fs, path, role);
  Result<std::unique_ptr<FileLock>> lock = fs.lock(d.file("lock"));
  if (lock.status().code() == Code::kExists) {
    return Status(Code::kExists, path + " belongs to another running " + role);
  }
  if (!lock.ok()) return lock.status();
  d.lock_ = std::move(*lock);
  const std::string file = d.file("state.json");
  const Result<Json> json = read_state(fs, file);
  if (!json.ok()) return json.status();
  if (json->is_null()) {
    if (const Status s = write_state(fs, file, {{"role", role}}); !s.ok()) return s;
    return d;
  }
  const auto found = reading(file, [&] {
    return std::pair(json->at("role").get<std::string>(), json->at("format").get<int>());
  });
  if (!found.ok()) return found.status();
  if (found->first == kMovedTuner) return Status(Code::kUnsupported, refusal_of_moved(path, *json));
  if (found->first != role) {
    return Status(Code::kUnsupported,
                  path + " is the state of a " + found->first + ", not of a " + role);
  }
  if (found->second == kFormatWithoutChecksum) {
    if (const Status s = write_state(fs, file, *json); !s.ok()) return s;
  } else if (found->second != kFormat) {
    return Status(Code::kUnsupported, path + " has format " + std::to_string(found->second) +
                                          "; this program knows " + std::to_string(kFormat));
  }
  return d;
}

Result<TunerIdentity> StateDirectory::next_term(uint64_t random) {
  Result<Json> json = read_state(*fs_, file("state.json"));
  if (!json.ok()) return json.status();
  if (!json->contains("tuner")) {
    const Digest drawn = sha256(std::to_string(random));
    (*json)["tuner"] = to_hex(std::span(drawn).first(16));
    (*json)["term"] = 0;
  }
  const auto me = reading(file("state.json"), [&] {
    return TunerIdentity{bytes_from_hex(json->at("tuner").get<std::string>()),
                         json->at("term").get<uint64_t>() + 1, std::max<uint64_t>(random, 1)};
  });
  if (!me.ok()) return me;
  (*json)["term"] = me->term;
  if (const Status s = write_state(*fs_, file("state.json"), *json); !s.ok()) return s;
  return me;
}

// A start counts only with its own term: an earlier program keeps the key and writes another term.
Result<TunerIdentity> StateDirectory::known_tuner() const {
  const Result<Json> json = read_state(*fs_, file("state.json"));
  if (!json.ok()) return json.status();
  return reading(file("state.json"), [&] {
    TunerIdentity known;
    if (!json->contains("tuner")) return known;
    known.id = bytes_from_hex(json->at("tuner"));
    known.term = json->at("term");
    if (!json->contains("start")) return known;
    const Json& start = json->at("start");
    if (start.at("term") == known.term) known.start = start.at("number");
    return known;
  });
}

Status StateDirectory::remember(const TunerIdentity& tuner) {
  Result<Json> json = read_state(*fs_, file("state.json"));
  if (!json.ok()) return json.status();
  (*json)["tuner"] = hex_of(tuner.id);
  (*json)["term"] = tuner.term;
  (*json)["start"] = {{"term", tuner.term}, {"number", tuner.start}};
  return write_state(*fs_, file("state.json"), *json);
}

}  // namespace ndtrain::ndp
