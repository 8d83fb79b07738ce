#include "framework/quantize/smooth.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/graph/op.h"
#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

constexpr double kActivationSteps = 255, kMatrixSteps = 127;

// A constant matrix, with the channels that are summed along rows.
struct Matrix {
  ModelNode* product;
  bool transposed;
  size_t channels, columns;
  std::vector<double> values;

  double& at(size_t channel, size_t column) {
    return values[transposed ? column * channels + channel : channel * columns + column];
  }
  double at(size_t channel, size_t column) const {
    return values[transposed ? column * channels + channel : channel * columns + column];
  }
};

// The variance that rounding x / s and s * w adds to the results, each error even over its step.
double expected_error(const Activation& x, const std::vector<Matrix>& matrices,
                      const std::vector<double>& s) {
  double largest = 0, squares = 0;
  for (size_t j = 0; j < s.size(); ++j) {
    largest = std::max(largest, x.lane_largest[j] / s[j]);
    squares += x.lane_square[j] / (s[j] * s[j]);
  }
  const double x_step = 2 * largest / kActivationSteps;
  double error = 0;
  for (const Matrix& w : matrices) {
    for (size_t n = 0; n < w.columns; ++n) {
      double most = 0, sum = 0;
      for (size_t j = 0; j < s.size(); ++j) {
        const double v = w.at(j, n) * s[j];
        most = std::max(most, std::abs(v));
        sum += v * v;
      }
      const double w_step = most / kMatrixSteps;
      error += (x_step * x_step * sum + w_step * w_step * squares) / 12;
    }
  }
  return error;
}

std::vector<double> factors(const Activation& x, const std::vector<Matrix>& matrices, double a) {
  std::vector<double> s(x.lane_largest.size(), 1.0);
  for (size_t j = 0; j < s.size(); ++j) {
    double w = 0;
    for (const Matrix& m : matrices) {
      for (size_t n = 0; n < m.columns; ++n) w = std::max(w, std::abs(m.at(j, n)));
    }
    if (w > 0 && x.lane_largest[j] > 0) s[j] = std::pow(x.lane_largest[j], a) / std::pow(w, 1 - a);
  }
  return s;
}

std::vector<double> best_factors(const Activation& x, const std::vector<Matrix>& matrices) {
  std::vector<double> best(x.lane_largest.size(), 1.0);
  double least = expected_error(x, matrices, best);
  for (const double a : {0.3, 0.4, 0.5, 0.6, 0.7, 0.8}) {
    std::vector<double> s = factors(x, matrices, a);
    const double error = expected_error(x, matrices, s);
    if (error < least) least = error, best = std::move(s);
  }
  return best;
}

class Smoothing {
 public:
  Smoothing(Model& model, const std::vector<std::string>& ends, const QuantizedPlaces& places)
      : m_(model),
        uses_(uses_of(model, ends)),
        products_(places.products.begin(), places.products.end()) {}

  bool run(ModelNode& norm, const Activation& x) {
    if (norm.op != "LayerNormalization" || norm.outputs.size() != 1) return false;
    for (size_t k = 1; k < norm.inputs.size(); ++k) {
      const Tensor* t = data(norm.inputs[k]);
      if (!t || t->shape() != Shape{static_cast<int64_t>(x.lane_largest.size())}) return false;
    }
    std::vector<Matrix> matrices;
    if (norm.inputs.size() < 2 || !find_matrices(norm.outputs[0], matrices) || matrices.empty())
      return false;
    const std::vector<double> s = best_factors(x, matrices);
    if (std::ranges::all_of(s, [](double v) { return v == 1; })) return false;
    divide(norm, s);
    for (Matrix& w : matrices) multiply(w, s);
    return true;
  }

 private:
  const Tensor* data(const std::string& name) const {
    const auto it = m_.initialisers.find(name);
    const bool is = it != m_.initialisers.end() && it->second.type().dtype == DType::kF32;
    return is ? &it->second : nullptr;
  }

  // Of all that reads `name`, also behind a Transpose that leaves the last axis last. False where
  // anything else does.
  bool find_matrices(const std::string& name, std::vector<Matrix>& all) {
    for (const int i : uses_.readers(name)) {
      if (i < 0 || i == uses_.caller()) return false;
      const auto at = static_cast<size_t>(i);
      ModelNode& n = m_.nodes[at];
      if (n.op == "Transpose" && n.attrs.has("perm")) {
        const Ints& perm = n.attrs.ints("perm");
        if (perm.back() != static_cast<int64_t>(perm.size()) - 1) return false;
        if (!find_matrices(n.outputs[0], all)) return false;
        continue;
      }
      if (!products_.contains(at) || n.inputs[0] != name || uses_.reads(n.inputs[1]) != 1)
        return false;
      const Tensor& w = m_.initialisers.at(n.inputs[1]);
      const bool transposed = n.attrs.has("transB") && n.attrs.flag("transB");
      all.push_back({&n, transposed, static_cast<size_t>(w.shape()[transposed ? 1 : 0]),
                     static_cast<size_t>(w.shape()[transposed ? 0 : 1]), w.to_doubles()});
    }
    return true;
  }

  void divide(ModelNode& norm, const std::vector<double>& s) {
    for (size_t k = 1; k < norm.inputs.size(); ++k) {
      const Tensor& was = m_.initialisers.at(norm.inputs[k]);
      std::vector<double> values = was.to_doubles();
      for (size_t j = 0; j < s.size(); ++j) values[j] /= s[j];
      const std::string name = norm.outputs[0] + (k == 1 ? "@smooth.scale" : "@smooth.bias");
      m_.initialisers[name] = Tensor::from_doubles(was.type(), values);
      norm.inputs[k] = name;
    }
  }

  void multiply(Matrix& w, const std::vector<double>& s) {
    for (size_t j = 0; j < s.size(); ++j) {
      for (size_t n = 0; n < w.columns; ++n) w.at(j, n) *= s[j];
    }
    const std::string name = w.product->outputs[0] + "@smooth";
    const TensorType type = m_.initialisers.at(w.product->inputs[1]).type();
    m_.initialisers[name] = Tensor::from_doubles(type, w.values);
    w.product->inputs[1] = name;
  }

  Model& m_;
  Uses<std::string> uses_;
  std::set<size_t> products_;
};

}  // namespace

int64_t smooth(Model& model, const std::vector<std::string>& until, const QuantizedPlaces& places,
               const std::map<std::string, Activation>& seen) {
  std::vector<std::string> ends = model.outputs;
  ends.insert(ends.end(), until.begin(), until.end());
  Smoothing smoothing(model, ends, places);
  int64_t changed = 0;
  for (ModelNode& n : model.nodes) {
    const auto x = seen.find(n.outputs.at(0));
    if (x != seen.end()) changed += smoothing.run(n, x->second) ? 1 : 0;
  }
  return changed;
}

}  // namespace ndtrain
