// A few elementwise ops in a row, as text: what one FusedElementwise computes. Steps are separated
// by "; ", each an op and its operands: x0 is an input of the node, y0 the result of a step before,
// anything else a number; then the op's attributes. "Sigmoid x0; Mul x0 y0" is x * sigmoid(x),
// "LeakyRelu x0 alpha=0.1; Add y0 1" has both an attribute and a number. The last step is the
// result.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/graph/attrs.h"

namespace ndtrain {

inline constexpr size_t kMostElementwiseInputs = 4, kMostElementwiseSteps = 16;

struct ElementwiseOperand {
  enum class Kind { kInput, kStep, kNumber };
  Kind kind;
  size_t at = 0;
  double number = 0;
};

struct ElementwiseStep {
  std::string op;
  std::vector<ElementwiseOperand> operands;
  Attrs attrs;
};

// How many operands the op has there; 0: it is none of those that may be a step.
size_t elementwise_operands(std::string_view op);

std::string text_of(const std::vector<ElementwiseStep>& steps);  // every number to the last bit

// Throws Error for what does not read as above, or names what is not there.
std::vector<ElementwiseStep> elementwise_steps(const std::string& text, size_t inputs);

}  // namespace ndtrain
