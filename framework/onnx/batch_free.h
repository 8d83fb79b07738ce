#pragma once

#include <set>
#include <string>

#include "framework/graph/growing_types.h"

namespace ndtrain {

// What values of a model are that neither an input nor the batch decides, while nodes are still
// being added to it.
class BatchFree {
 public:
  explicit BatchFree(const Model& model);  // keeps a reference

  // Null where something decides it. Valid until the next call. Throws Error where a node before
  // does not fit.
  const Tensor* find(const std::string& value);

 private:
  void learn(const ModelNode& n);
  bool is_free(const std::string& value) const;
  bool is_affine(const std::string& value) const;
  bool is_affine(const ModelNode& n) const;
  bool is_same_at_two_and_three(const std::string& value);

  const Model& model_;
  GrowingTypes two_, three_;
  std::set<std::string> free_, affine_;
  size_t nodes_ = 0;  // that were looked at
};

}  // namespace ndtrain
