#include "tuner/ingest/row_check.h"

#include <cmath>

#include "framework/core/finite.h"
#include "ndp/jobs/features.h"

namespace ndtrain::tuner {
using namespace ndp;

RowCheck finite_features(std::vector<TensorType> row_types) {
  return [types = std::move(row_types)](std::string_view rows) -> std::string {
    for (size_t i = 0; !rows.empty() && !types.empty(); i = (i + 1) % types.size()) {
      const std::string_view values = rows.substr(0, bytes_of_row(types[i]));
      if (!all_finite(types[i].dtype, std::as_bytes(std::span(values)))) {
        return "a feature is NaN or Inf";
      }
      rows.remove_prefix(values.size());
    }
    return "";
  };
}

RowCheck known_classes(size_t classes) {
  return
      [classes](std::string_view row) { return read_label_row(row, classes).status().message(); };
}

Result<std::vector<RankedClass>> read_label_row(std::string_view row, size_t classes) {
  std::vector<RankedClass> best = ranked_classes(row);
  for (const RankedClass& c : best) {
    if (c.class_id < classes && std::isfinite(c.score)) continue;
    return Status(Code::kCorrupt, "a label names class " + std::to_string(c.class_id) + " of " +
                                      std::to_string(classes) + ", or has no score");
  }
  return best;
}

}  // namespace ndtrain::tuner
