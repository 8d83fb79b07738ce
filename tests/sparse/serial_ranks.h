// What several ranks would do, worked out in one thread from what each of them has.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace ndtrain::testing {

using Values = std::map<std::string, std::vector<float>>;

inline Values values_of(const std::map<std::string, Tensor>& tensors) {
  Values all;
  for (const auto& [name, t] : tensors) {
    const auto values = t.as<float>();
    all[name] = {values.begin(), values.end()};
  }
  return all;
}

inline void put(const Values& values, std::map<std::string, Tensor>& into) {
  for (const auto& [name, v] : values)
    std::ranges::copy(v, into.at(name).mutable_as<float>().begin());
}

// In the order of a tree.
inline float sum_of(std::vector<float> x) {
  while (x.size() > 1) {
    std::vector<float> halves;
    for (size_t i = 0; i < x.size(); i += 2) {
      halves.push_back(i + 1 < x.size() ? x[i] + x[i + 1] : x[i]);
    }
    x = halves;
  }
  return x[0];
}

}  // namespace ndtrain::testing
