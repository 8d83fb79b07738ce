#include "framework/ops/time_steps.h"

#include <algorithm>

#include "framework/core/limits.h"
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// How many steps a part has of a sequence that goes through one node at most.
int64_t part_of(int64_t steps) { return (steps + limits::kPorts - 1) / limits::kPorts; }

std::vector<ValueId> parts(Graph& g, ValueId x, int64_t each) {
  const int64_t n = g.shape(x)[0];
  Ints sizes;
  for (int64_t at = 0; at < n; at += each) sizes.push_back(std::min(each, n - at));
  if (sizes.size() == 1) return {x};
  const auto count = static_cast<int>(sizes.size());
  return g.add("Split", {x, g.add_constant("", sizes)}, {{"axis", int64_t{0}}}, count);
}

ValueId joined(Graph& g, const std::vector<ValueId>& parts) {
  if (parts.size() == 1) return parts[0];
  return g.add1("Concat", parts, {{"axis", int64_t{0}}});
}

}  // namespace

std::vector<ValueId> steps_of(Graph& g, ValueId x) {
  const Shape shape = g.shape(x);
  const Shape one(Ints(shape.dims().begin() + 1, shape.dims().end()));
  std::vector<ValueId> steps;
  for (const ValueId part : parts(g, x, part_of(shape[0]))) {
    for (const ValueId step : parts(g, part, 1)) steps.push_back(reshape(g, step, one));
  }
  return steps;
}

ValueId stacked(Graph& g, const std::vector<ValueId>& steps) {
  const Shape shape = g.shape(steps[0]);
  Ints dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.begin(), 1);
  const auto each = static_cast<size_t>(part_of(static_cast<int64_t>(steps.size())));
  std::vector<ValueId> rows, all;
  for (const ValueId step : steps) {
    rows.push_back(reshape(g, step, Shape(dims)));
    if (rows.size() < each && rows.size() + all.size() * each < steps.size()) continue;
    all.push_back(joined(g, rows));
    rows.clear();
  }
  return joined(g, all);
}

void check_steps_of(int64_t steps) {
  if (steps < 1 || steps > limits::kLoopTrips) {
    throw Error("has ", steps, " steps, must have 1 to ", limits::kLoopTrips);
  }
}

}  // namespace ndtrain
