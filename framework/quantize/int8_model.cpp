#include "framework/quantize/int8_model.h"

#include <algorithm>
#include <cmath>

#include "framework/graph/share_constants.h"

namespace ndtrain {
namespace {

constexpr double kWeightSteps = 127;

class Int8Model {
 public:
  Int8Model(const Model& model, const QuantizedPlaces& places,
            const std::map<std::string, Activation>& seen)
      : from_(model), places_(places), seen_(seen), to_(model) {
    to_.nodes.clear();
    for (const auto& [name, group] : places_.group_of) see(extremes_[group], seen_.at(name));
    for (const auto& [name, group] : places_.group_of) widen(units_[group], name, group);
    for (auto& [group, units] : units_) finish(units, group);
  }

  Model run() {
    for (const auto& [name, group] : places_.group_of) {
      const bool u8 = is_unsigned(group) || is_off_centre(group);
      add_number(group + "@scale", DType::kF32, units_[group].scale);
      add_number(group + "@zero", u8 ? DType::kU8 : DType::kI8, units_[group].zero);
    }
    for (const ModelInput& in : from_.inputs) {
      if (held(in.name)) through_bytes(in.name, in.name, in.name + "@dq");
    }
    for (size_t i = 0; i < from_.nodes.size(); ++i) node(i);
    share_constants(to_);
    return std::move(to_);
  }

 private:
  bool held(const std::string& name) const { return places_.group_of.contains(name); }
  bool is_unsigned(const std::string& group) const {
    return places_.never_negative.contains(group);
  }

  // What is hardly ever negative, as x * sigmoid(x), has half of 255 steps without a zero point.
  bool is_off_centre(const std::string& group) const {
    if (places_.off_centre.contains(group)) return true;
    const Units& range = extremes_.at(group);
    return !is_unsigned(group) && -range.low < range.high / 2;
  }

  // Of a group: its range, and what the steps in it are.
  struct Units {
    double low = 0, high = 0, scale = 0, zero = 0;
  };

  static void see(Units& range, const Activation& a) {
    range.low = std::min(range.low, a.lowest);
    range.high = std::max(range.high, a.highest);
  }

  // To what a member takes.
  void widen(Units& units, const std::string& name, const std::string& group) {
    const Activation& a = seen_.at(name);
    const bool whole = !is_off_centre(group);
    const double clip = a.magnitudes.best_clip(is_unsigned(group) ? 255 : 127);
    units.low = std::min(units.low, whole ? -clip : std::max(-clip, a.lowest));
    units.high = std::max(units.high, whole ? clip : std::min(clip, a.highest));
  }

  void finish(Units& units, const std::string& group) {
    const double range = is_off_centre(group) ? units.high - units.low : units.high;
    const int steps = is_unsigned(group) || is_off_centre(group) ? 255 : 127;
    units.scale = static_cast<double>(static_cast<float>(std::max(range, 1e-12) / steps));
    units.zero = is_off_centre(group) ? std::nearbyint(-units.low / units.scale) : 0;
    units.zero = std::clamp(units.zero, 0.0, 255.0);
  }

  void add_number(const std::string& name, DType t, double v) {
    to_.initialisers[name] = Tensor::from_doubles({t, {}}, {&v, 1});
  }

  void through_bytes(const std::string& name, const std::string& from, const std::string& to) {
    const std::string& group = places_.group_of.at(name);
    const std::string scale = group + "@scale", zero = group + "@zero";
    to_.nodes.push_back({"QuantizeLinear", {from, scale, zero}, {name + "@q"}, {}});
    to_.nodes.push_back({"DequantizeLinear", {name + "@q", scale, zero}, {to}, {}});
  }

  bool is_input(const std::string& name) const {
    return std::ranges::any_of(from_.inputs, [&](const auto& in) { return in.name == name; });
  }

  void node(size_t i) {
    ModelNode n = from_.nodes[i];
    if (std::ranges::binary_search(places_.convolutions, i)) quantize_weights(n);
    if (std::ranges::binary_search(places_.products, i)) quantize_matrix(n);
    for (std::string& in : n.inputs) {
      if (held(in) && is_input(in)) in += "@dq";
    }
    std::vector<std::string> raw;
    for (std::string& out : n.outputs) {
      if (!held(out)) continue;
      raw.push_back(out);
      out += "@raw";
    }
    to_.nodes.push_back(std::move(n));
    for (const std::string& name : raw) through_bytes(name, name + "@raw", name);
  }

  void quantize_weights(ModelNode& conv) {
    const Tensor& w = from_.initialisers.at(conv.inputs[1]);
    const bool has_bias = conv.inputs.size() > 2 && !conv.inputs[2].empty();
    const auto channels = static_cast<size_t>(w.shape()[0]);
    std::vector<double> weights = w.to_doubles(), scales(channels);
    std::vector<double> bias = has_bias ? from_.initialisers.at(conv.inputs[2]).to_doubles()
                                        : std::vector<double>(channels, 0.0);
    const std::string& x = conv.inputs[0];
    const double x_scale = units_.at(places_.group_of.at(x)).scale;
    const size_t row = weights.size() / channels;
    for (size_t m = 0; m < channels; ++m) {
      const std::span<double> of(&weights[m * row], row);
      scales[m] = weight_scale(of, bias[m], x_scale);
      bias[m] += rounded_weights(of, scales[m], w.shape(), m, seen_.at(x).channel_mean,
                                 conv.attrs.has("group") ? conv.attrs.i("group") : 1);
      bias[m] = std::nearbyint(bias[m] / (x_scale * scales[m]));
    }
    write(conv, w.shape(), weights, scales, bias, x_scale);
  }

  // So that the largest weight is 127 steps, and the bias fits 32 bits.
  static double weight_scale(std::span<const double> w, double bias, double x_scale) {
    double largest = 0;
    for (const double v : w) largest = std::max(largest, std::abs(v));
    const double least = std::abs(bias) / (x_scale * 0x1p30);
    const double scale = std::max({largest / kWeightSteps, least, 1e-12});
    return static_cast<double>(static_cast<float>(scale));
  }

  // Rounds the weights of channel m and returns by how much the mean of its output fell.
  static double rounded_weights(std::span<double> w, double scale, const Shape& shape, size_t m,
                                const std::vector<double>& x_mean, int64_t groups) {
    const auto per_group = static_cast<size_t>(shape[1]);
    const size_t taps = w.size() / per_group;
    const size_t first = m / static_cast<size_t>(shape[0] / groups) * per_group;
    double fell = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      const double rounded = std::clamp(std::nearbyint(w[i] / scale), -kWeightSteps, kWeightSteps);
      fell += (w[i] - rounded * scale) * x_mean.at(first + i / taps);
      w[i] = rounded;
    }
    return fell;
  }

  void write(ModelNode& conv, const Shape& shape, const std::vector<double>& weights,
             const std::vector<double>& scales, const std::vector<double>& bias, double x_scale) {
    const std::string name = conv.outputs[0] + "@conv";
    std::vector<double> units = scales;
    for (double& u : units) u = static_cast<float>(u) * static_cast<float>(x_scale);
    conv.inputs = {
        conv.inputs[0],
        stored(name + ".w", Tensor::from_doubles({DType::kI8, shape}, weights), scales),
        stored(name + ".b", Tensor::from_doubles({DType::kI32, {shape[0]}}, bias), units)};
  }

  // The name of what `data` is dequantised to, by a scale for each index of `axis`.
  std::string stored(const std::string& name, Tensor data, const std::vector<double>& scales,
                     int64_t axis = 0) {
    const Shape each{static_cast<int64_t>(scales.size())};
    auto& all = to_.initialisers;
    all[name + "_scale"] = Tensor::from_doubles({DType::kF32, each}, scales);
    all[name + "_zero"] = Tensor({data.type().dtype, each});
    all[name] = std::move(data);
    to_.nodes.push_back({"DequantizeLinear",
                         {name, name + "_scale", name + "_zero"},
                         {name + "_dq"},
                         {{"axis", axis}}});
    return name + "_dq";
  }

  void quantize_matrix(ModelNode& product) {
    const Tensor& w = from_.initialisers.at(product.inputs[1]);
    const bool transposed = product.attrs.has("transB") && product.attrs.flag("transB");
    const int axis = transposed ? 0 : 1;
    const auto columns = static_cast<size_t>(w.shape()[axis]),
               last = static_cast<size_t>(w.shape()[1]);
    std::vector<double> values = w.to_doubles(), scales(columns);
    const auto column = [&](size_t i) { return transposed ? i / last : i % last; };
    for (size_t i = 0; i < values.size(); ++i) {
      scales[column(i)] = std::max(scales[column(i)], std::abs(values[i]));
    }
    for (double& s : scales) {
      s = static_cast<double>(static_cast<float>(std::max(s / kWeightSteps, 1e-12)));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const double rounded = std::nearbyint(values[i] / scales[column(i)]);
      values[i] = std::clamp(rounded, -kWeightSteps, kWeightSteps);
    }
    product.inputs[1] = stored(product.outputs[0] + "@product.w",
                               Tensor::from_doubles({DType::kI8, w.shape()}, values), scales, axis);
  }

  const Model& from_;
  const QuantizedPlaces& places_;
  const std::map<std::string, Activation>& seen_;
  Model to_;
  std::map<std::string, Units> extremes_, units_;  // by group; the former are what was seen
};

}  // namespace

Model int8_model(const Model& model, const QuantizedPlaces& places,
                 const std::map<std::string, Activation>& seen) {
  return Int8Model(model, places, seen).run();
}

}  // namespace ndtrain
