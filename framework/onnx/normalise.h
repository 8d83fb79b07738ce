// The few forms that opset 18 and later have beside the older ones, as the older ones: so that a
// model has the same nodes, and the same content_id, before and after an export.
#pragma once

#include <map>
#include <string>

#include "framework/graph/model.h"

namespace ndtrain {

// The types of a model's values at one batch size, inferred when first asked for. Nothing is known
// when the model cannot be bound, or only with values for some inputs.
class ValueTypes {
 public:
  ValueTypes(const Model& model, int64_t batch) : model_(model), batch_(batch) {}
  const TensorType* find(const std::string& value);

 private:
  void infer();

  const Model& model_;
  int64_t batch_;
  bool inferred_ = false;
  std::map<std::string, TensorType> types_;
};

// Split into a number of unequal parts: their sizes listed. Pad of some axes: of all. A Reduce of
// no axes that says it is none: the elementwise op. What cannot be told without more shapes stays.
void normalise(Model& model);

}  // namespace ndtrain
