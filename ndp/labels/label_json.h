// Labels as tools read them: what `ndtrain labels … --json` prints and the Tuner answers over HTTP.
// Names and paths may be bytes that are no UTF-8: dump them accordingly.
#pragma once

#include <nlohmann/json.hpp>

#include "ndp/labels/label_db.h"

namespace ndtrain {

nlohmann::ordered_json to_json(const LabelRow& row);
nlohmann::ordered_json to_json(const LabelStats& stats);
nlohmann::ordered_json to_json(const LabelDiff& diff);
nlohmann::ordered_json to_json(const Agreement& agreement);  // with its interval, if it has photos
nlohmann::ordered_json to_json(const FieldAccuracy& accuracy);

}  // namespace ndtrain
