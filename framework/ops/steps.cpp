#include "framework/ops/steps.h"

#include <limits>

#include "framework/graph/elementwise_steps.h"

namespace ndtrain {
namespace {

const OpDef& program() { return find_op("FusedElementwise"); }

}  // namespace

void check_steps(const Attrs& attrs, const TensorType& y) {
  if (attrs.s("steps").empty()) return;
  const std::vector<Tensor> known(1);
  std::vector<TensorType> out;
  std::vector<Tensor> out_known(1);
  InferContext c{attrs, {&y, 1}, known, 1, out, out_known};
  program().infer(c);
}

void apply_steps(const Attrs& attrs, const TensorType& y, std::vector<double>& values) {
  if (attrs.s("steps").empty()) return;
  const std::vector<std::vector<double>> x = {values};
  std::vector<std::vector<double>> out = {std::move(values)};
  program().reference({attrs, {&y, 1}, {&y, 1}, x, out});
  values = std::move(out[0]);
}

bool is_clamp(const Attrs& attrs) {
  if (!attrs.has("steps") || attrs.s("steps").empty()) return true;
  const std::vector<ElementwiseStep> steps = elementwise_steps(attrs.s("steps"), 1);
  return steps.size() == 1 && find_op(steps[0].op).facts.clamp;
}

Limits limits_of(const Attrs& attrs) {
  if (!is_clamp(attrs)) throw Error("steps '", attrs.s("steps"), "' are more than a clamp");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> ends = {-kInfinity, kInfinity};
  apply_steps(attrs, {DType::kF64, {2}}, ends);
  return {ends[0], ends[1]};
}

}  // namespace ndtrain
