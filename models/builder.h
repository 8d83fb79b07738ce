// Writes a Model layer by layer. A layer's weights have the names of torchvision's state_dict
// ("layer1.0.conv1.weight"), and its output has the layer's ("layer1.0.conv1"), so that weights
// move between the two and --freeze takes the names people know.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/graph/model.h"
#include "models/init.h"

namespace ndtrain::models {

struct Size {
  int64_t height, width;
  Size(int64_t side) : height(side), width(side) {}  // NOLINT: 3 is 3 x 3
  Size(int64_t h, int64_t w) : height(h), width(w) {}
};

struct Conv {
  int64_t out;
  Size kernel = 1, stride = 1, pad = 0;
  int64_t groups = 1;
  bool bias = false;
  std::optional<Init> init = std::nullopt;  // of the weight; default: the model's
};

struct Pool {
  Size kernel, stride = 1, pad = 0;
  bool ceil_mode = false;
};

// How weights start where a layer does not say.
struct Inits {
  Init conv = fan_in_uniform();
  Init linear = fan_in_uniform();
  std::optional<Init> bias = std::nullopt;  // default: uniform within 1/sqrt(fan-in)
};

class Builder {
 public:
  using Value = std::string;  // its name in the Model

  // The model takes `input`, f32 [batch, 3, img_size, img_size]. A weight is a function of the seed
  // and its name. Every method throws Error when its inputs do not fit.
  Builder(uint64_t seed, int64_t img_size, Inits inits = {});

  const Value& input() const { return input_; }
  const Shape& shape(const Value& x) const;  // for a batch of 1

  Value conv(const std::string& name, const Value& x, const Conv& c);
  Value batch_norm(const std::string& name, const Value& x, double epsilon = 1e-5);
  Value layer_norm(const std::string& name, const Value& x, double epsilon);
  // Over the last dimension.
  Value linear(const std::string& name, const Value& x, int64_t out);
  Value linear(const Value& x, const Value& weight, const Value& bias);

  Value relu(const Value& x) { return node("Relu", {x}); }
  Value relu6(const Value& x);
  Value gelu(const Value& x) { return node("Gelu", {x}); }
  Value dropout(const Value& x, double ratio);  // nothing for a ratio of 0
  Value max_pool(const Value& x, const Pool& p);
  Value average_pool(const Value& x, const Pool& p);  // the padding counts, as in PyTorch
  Value global_average_pool(const Value& x) { return node("GlobalAveragePool", {x}); }
  Value flatten(const Value& x) { return node("Flatten", {x}, {{"axis", int64_t{1}}}); }
  Value add(const Value& a, const Value& b) { return node("Add", {a, b}); }
  Value concat(const std::vector<Value>& parts, int64_t axis = 1);
  Value reshape(const Value& x, Ints dims) { return node("Reshape", {x, ints(std::move(dims))}); }
  Value transpose(const Value& x, Ints perm) {
    return node("Transpose", {x}, {{"perm", std::move(perm)}});
  }

  Value param(const std::string& name, Shape shape, const Init& init);
  Value ints(Ints values);       // a constant [n]
  Value number(double value);    // a constant scalar, no weight
  Value integer(int64_t value);  // likewise
  std::vector<Value> nodes(const std::string& op, const std::vector<Value>& inputs, Attrs attrs,
                           size_t outputs);
  Value node(const std::string& op, const std::vector<Value>& inputs, Attrs attrs = {}) {
    return nodes(op, inputs, std::move(attrs), 1)[0];
  }

  // Calls the output of the last node `name`.
  Value named(const Value& x, const std::string& name);
  // The model whose output is that of the last node, called "logits".
  Model finish(const Value& x);

 private:
  Value constant_tensor(const std::string& name, Tensor value);
  std::vector<ValueId> add_shapes(const std::string& op, const std::vector<ValueId>& in,
                                  const Attrs& attrs, int outputs);
  Value bias(const std::string& name, int64_t n, int64_t fan_in);

  uint64_t seed_;
  Inits inits_;
  Model model_;
  Value input_;
  Graph shapes_;  // the same nodes at batch 1
  std::map<std::string, ValueId> values_;
  std::map<std::string, int> counts_;  // nodes per op, for names
};

}  // namespace ndtrain::models
