// A picture of what simulate_pipeline() says: a row for each rank and replica, a box for whatever
// is computed or exchanged, with its letter and micro-batch ("F3", "B3"; symbol() has the letters).
// Where a row is blank it waits. Versions stand below where there are several; the rest is said
// where a pointer rests on a box.
#pragma once

#include <string>
#include <string_view>

#include "framework/pipeline/schedules/simulate_pipeline.h"

namespace ndtrain {

// SVG, which stands alone. `title` is plain text.
std::string pipeline_svg(const PipeShape& shape, const PipelinePrediction& prediction,
                         std::string_view title);

}  // namespace ndtrain
