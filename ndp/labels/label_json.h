// Labels as tools read them: what `ndtrain labels … --json` prints and the Tuner answers over HTTP.
// Names and paths may be bytes that are no UTF-8: dump them accordingly.
#pragma once

#include "framework/core/json.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::ndp {

// {"version": what people call it, "content": SHA-256}: a Tuner's number is a number, and the
// beginning of the content, of a version without one, a string.
Json version_json(std::optional<int64_t> number, const Digest& content);
Json to_json(const LabelRow& row);
Json to_json(const LabelStats& stats);
Json to_json(const LabelDiff& diff);
Json to_json(const Agreement& agreement);  // with its interval, if it has photos
Json to_json(const FieldAccuracy& accuracy);

}  // namespace ndtrain::ndp
