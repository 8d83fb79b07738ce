// An op's example as a model of one node.
#pragma once

#include <vector>

#include "framework/graph/model.h"
#include "tests/ops/example_graph.h"

namespace ndtrain {

struct ExampleModel {
  Model model;                 // inputs "x0", "x1", …; outputs "y0", …
  std::vector<Tensor> inputs;  // of those that are no initialisers, because they decide shapes
};

ExampleModel example_model(const OpDef& def, const Example& example);

}  // namespace ndtrain
