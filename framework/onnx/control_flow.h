// If, Loop and Scan as the nodes that run, where neither an input nor the batch decides which: a
// graph has one order.
#pragma once

#include <functional>

#include "framework/onnx/onnx_model.h"

namespace ndtrain {

// Where these nodes go.
class Unfolding {
 public:
  virtual ~Unfolding() = default;
  virtual void add(OnnxNode n) = 0;
  virtual void add_constant(const std::string& name, Tensor value) = 0;
  virtual std::string fresh(const std::string& hint) = 0;
  // What a value is that is there already; null where that is not known. May throw Error.
  virtual const Tensor* known(const std::string& value) = 0;
};

// Whether `n` is one of the three.
bool is_control_flow(const OnnxNode& n);

// Throws Error saying why where it cannot be done; a Loop or Scan runs at most
// limits::kLoopTrips times.
void unfold(const OnnxNode& n, Unfolding& to);

}  // namespace ndtrain
