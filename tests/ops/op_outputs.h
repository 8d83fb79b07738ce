// One op on numbers, by its reference.
#pragma once

#include <string>
#include <vector>

#include "framework/runtime/interpreter.h"

namespace ndtrain {

struct Given {
  TensorType type;
  std::vector<double> values;
  bool known = false;

  Given(Shape s, std::vector<double> v) : type{DType::kF32, std::move(s)}, values(std::move(v)) {}
  Given(DType t, Shape s, std::vector<double> v) : type{t, std::move(s)}, values(std::move(v)) {}
  static Given absent() { return {DType::kNone, {}, {}}; }
  // Decides shapes.
  static Given constant(DType t, std::vector<double> v) {
    Given g(t, Shape{static_cast<int64_t>(v.size())}, {});
    g.values = std::move(v);
    g.known = true;
    return g;
  }
};

inline std::vector<std::vector<double>> outputs_of(const std::string& op,
                                                   const std::vector<Given>& inputs,
                                                   Attrs attrs = {}, int outputs = 0) {
  Graph g;
  DoubleValues given;
  std::vector<ValueId> ids;
  for (const Given& in : inputs) {
    if (in.type.dtype == DType::kNone) {
      ids.push_back(kNone);
    } else if (in.known) {
      ids.push_back(g.add_constant("", Tensor::from_doubles(in.type, in.values)));
    } else {
      ids.push_back(g.add_input("", in.type));
      given[ids.back()] = in.values;
    }
  }
  const std::vector<ValueId> ys = g.add(op, ids, std::move(attrs), outputs);
  const DoubleValues all = interpret(g, given);
  std::vector<std::vector<double>> result;
  for (const ValueId y : ys) result.push_back(all.at(y));
  return result;
}

inline std::vector<double> output_of(const std::string& op, const std::vector<Given>& inputs,
                                     Attrs attrs = {}) {
  return outputs_of(op, inputs, std::move(attrs)).at(0);
}

inline std::string why_not(const std::string& op, const std::vector<Given>& inputs,
                           Attrs attrs = {}) {
  try {
    output_of(op, inputs, std::move(attrs));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace ndtrain
