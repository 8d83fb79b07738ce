#include "cli/restored_term.h"

#include <algorithm>

#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "ndp/wire/state_directory.h"
#include "ndp/wire/tuner_identity.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// So large that stores which met the Tuner that was saved, or a copy of it, follow the restored
// one.
uint64_t term_after(uint64_t saved, int64_t unix_seconds) {
  return std::max(saved + kTermsOfRestore, term_of_time(unix_seconds));
}

}  // namespace

void raise_term(Fs& fs, const std::string& path, int64_t now) {
  Result<Json> read = parse_state(fs.read(path).or_throw());
  if (!read.ok()) throw Error(path, ": ", read.status().message());
  Json json = std::move(*read);
  if (!json.contains("term")) return;  // it was never started
  if (!json["term"].is_number_unsigned()) throw Error(path, ": its term is no number");
  json["term"] = term_after(json["term"].get<uint64_t>(), now);
  publish(fs, path, state_text(std::move(json))).or_throw();
}

}  // namespace ndtrain::cli
