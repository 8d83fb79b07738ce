#include "framework/graph/elementwise_steps.h"

#include <charconv>
#include <optional>
#include <sstream>

#include "framework/core/error.h"
#include "framework/graph/op.h"

namespace ndtrain {
namespace {

using Kind = ElementwiseOperand::Kind;

std::string text_of(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::string text_of(const ElementwiseOperand& o) {
  if (o.kind == Kind::kNumber) return text_of(o.number);
  return (o.kind == Kind::kInput ? 'x' : 'y') + std::to_string(o.at);
}

template <typename T>
std::optional<T> whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

ElementwiseOperand operand_of(std::string_view word, size_t inputs, size_t steps) {
  if (const auto number = whole<double>(word)) return {Kind::kNumber, 0, *number};
  const auto at = whole<size_t>(word.substr(1));
  if (word[0] == 'x' && at && *at < inputs) return {Kind::kInput, *at};
  if (word[0] == 'y' && at && *at < steps) return {Kind::kStep, *at};
  throw Error("'", word, "' is no number, none of ", inputs, " inputs and none of ", steps,
              " steps before");
}

ElementwiseStep step_of(const std::string& text, size_t inputs, size_t before) {
  std::istringstream words(text);
  ElementwiseStep step;
  words >> step.op;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      step.operands.push_back(operand_of(word, inputs, before));
      continue;
    }
    const std::string value = word.substr(equals + 1);
    const auto number = whole<double>(value);
    step.attrs.set(word.substr(0, equals), number ? Attr(*number) : Attr(value));
  }
  if (step.operands.empty() || step.operands.size() != elementwise_operands(step.op)) {
    throw Error("'", text, "' is no step: ", step.op, " with ", step.operands.size(), " operands");
  }
  return step;
}

}  // namespace

size_t elementwise_operands(std::string_view op) {
  const OpDef* def = try_find_op(op);
  return def && def->facts.step ? static_cast<size_t>(def->max_inputs) : 0;
}

std::string text_of(const std::vector<ElementwiseStep>& steps) {
  std::string text;
  for (const ElementwiseStep& step : steps) {
    text += (text.empty() ? "" : "; ") + step.op;
    for (const ElementwiseOperand& o : step.operands) text += ' ' + text_of(o);
    for (const auto& [name, value] : step.attrs) {
      const auto* number = std::get_if<double>(&value);
      text += ' ' + name + '=' + (number ? text_of(*number) : std::get<std::string>(value));
    }
  }
  return text;
}

std::vector<ElementwiseStep> elementwise_steps(const std::string& text, size_t inputs) {
  std::vector<ElementwiseStep> steps;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    steps.push_back(step_of(part, inputs, steps.size()));
  }
  if (steps.empty() || steps.size() > kMostElementwiseSteps) {
    throw Error(steps.size(), " steps, must be 1 to ", kMostElementwiseSteps);
  }
  return steps;
}

}  // namespace ndtrain
