#include "tuner/jobs/job_reader.h"

#include <algorithm>

#include "ndp/wire/protocol.h"

namespace ndtrain::tuner {
using namespace ndp;

void JobReader::take(const char* key, Promote& to) {
  Json value = to == Promote::kRule ? Json("rule") : Json(to == Promote::kAlways);
  take(key, value);
  if (value != "rule" && !value.is_boolean()) {
    throw Error("job: ", key, " ", json_text(value), ": there are true, false and \"rule\"");
  }
  to = value == "rule" ? Promote::kRule : value == true ? Promote::kAlways : Promote::kNever;
}

void JobReader::take(const char* key, StoreSelection& to) {
  const auto it = json_.find(key);
  if (it == json_.end()) return;
  const Json value = *it;
  json_.erase(it);
  const auto refuse = [&](const char* what) {
    throw Error("job: ", key, " ", json_text(value), what);
  };
  to = {};
  if (value == "all") return;
  if (value.is_number()) {
    const bool whole = value.is_number_integer();
    if (!whole || value < 1 || value > kMostStores) refuse(": from 1 to 10000");
    to.number = value.get<uint32_t>();
  } else if (value.is_array()) {
    if (value.empty() || value.size() > kMostNamed) refuse(": from 1 to 500 names");
    for (const Json& name : value) {
      if (!name.is_string() || !names_store(name.get<std::string>())) {
        refuse(": names are of letters, digits, '.', '_' and '-', at most 64");
      }
      to.names.push_back(name.get<std::string>());
    }
    std::ranges::sort(to.names);
    if (std::ranges::adjacent_find(to.names) != to.names.end()) refuse(": a name occurs twice");
  } else {
    refuse(": there are \"all\", a number, and a list of names");
  }
}

void JobReader::finish(std::string_view kind) const {
  if (json_.empty()) return;
  throw Error("job: unknown key '", json_.begin().key(), "' of kind ", kind);
}

}  // namespace ndtrain::tuner
