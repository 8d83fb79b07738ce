#pragma once

#include <memory>
#include <string>

#include "framework/graph/model.h"

namespace ndtrain {

// The types of a model's values at one batch, while nodes are still being added to it.
class GrowingTypes {
 public:
  GrowingTypes(const Model& model, int64_t batch);  // keeps a reference
  ~GrowingTypes();

  // Of a value that the model's nodes so far compute. Throws Error where it cannot be told.
  const TensorType& of(const std::string& value);
  // Its data where no input decides it; else null.
  const Tensor* data(const std::string& value);

 private:
  struct Bound;
  std::unique_ptr<Bound> bound_;
};

}  // namespace ndtrain
