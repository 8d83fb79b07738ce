#include "framework/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "framework/graph/precision.h"
#include "framework/passes/inference.h"
#include "framework/quantize/int8_model.h"
#include "framework/quantize/prepare.h"
#include "framework/quantize/smooth.h"
#include "framework/runtime/executor.h"

namespace ndtrain {
namespace {

// Photos that decide which layers are sensitive: each layer runs them once.
constexpr size_t kSensitivityBatches = 2;

std::vector<Tensor> run(const Model& model, const std::vector<std::string>& outputs,
                        std::span<const Tensor> batches, const Device& device) {
  Model part = model;
  part.outputs = outputs;
  const Plan plan(inference_graph(part, batches[0].shape()[0]), device);
  Executor executor(plan);
  std::vector<Tensor> all;
  for (const Tensor& batch : batches) {
    for (Tensor& t : executor.run({&batch, 1})) all.push_back(std::move(t));
  }
  return all;
}

class Quantizer {
 public:
  Quantizer(const Model& model, std::span<const Tensor> batches, const Device& device,
            const QuantizeOptions& options, const std::function<void(const std::string&)>& say)
      : options_(options), batches_(batches), device_(device), say_(say) {
    until_ = options.until.empty() ? model.outputs : options.until;
    Model plain = model;
    declare_precision(plain, Precision::kF32);
    model_ = prepared_for_quantization(plain, until_);
  }

  Quantization run() {
    const QuantizedPlaces all = quantized_places(model_, until_, {});
    if (all.convolutions.empty() && all.products.empty()) {
      throw Error(
          "there is neither a convolution nor a large product of matrices with f32 weights to "
          "quantise; --precision bf16 serves every model");
    }
    watch(all);
    wanted_ = ndtrain::run(model_, until_, batches_, device_);
    smoothed_ = smooth(model_, until_, all, seen_);
    if (smoothed_ > 0) watch(all);
    Quantization q = quantized({});
    if (!is_good(q)) keep_the_sensitive(all, q);
    return q;
  }

 private:
  void watch(const QuantizedPlaces& places) {
    std::vector<std::string> values;
    for (const auto& [name, group] : places.group_of) values.push_back(name);
    seen_ = watch_activations(model_, values, batches_, device_);
  }

  Model int8(const std::set<std::string>& keep) const {
    return int8_model(model_, quantized_places(model_, until_, keep), seen_);
  }

  double cosine(const Model& m, size_t batches) const {
    const std::vector<Tensor> got = ndtrain::run(m, until_, batches_.first(batches), device_);
    return mean_cosine(got, std::span(wanted_).first(got.size()));
  }

  Quantization quantized(const std::set<std::string>& keep) const {
    Quantization q{.model = int8(keep), .kept = {keep.begin(), keep.end()}};
    const QuantizedPlaces places = quantized_places(model_, until_, keep);
    q.convolutions = static_cast<int64_t>(places.convolutions.size());
    q.products = static_cast<int64_t>(places.products.size());
    q.smoothed = smoothed_;
    q.cosine = cosine(q.model, batches_.size());
    declare_precision(q.model, Precision::kInt8, options_.until);
    return q;
  }

  bool is_good(const Quantization& q) const {
    return q.cosine >= options_.least_cosine && (!options_.accepts || options_.accepts(q.model));
  }

  void keep_the_sensitive(const QuantizedPlaces& all, Quantization& q) {
    const std::vector<std::string> order = most_sensitive_first(all);
    const auto most = static_cast<size_t>(options_.most_kept * static_cast<double>(order.size()));
    std::set<std::string> keep;
    for (size_t i = 0; i < most; ++i) {
      keep.insert(order[i]);
      q = quantized(keep);
      if (say_) {
        std::ostringstream text;
        text << order[i] << " stays f32: cosine " << q.cosine;
        say_(text.str());
      }
      if (is_good(q)) return;
    }
  }

  // By what quantising one of them alone costs.
  std::vector<std::string> most_sensitive_first(const QuantizedPlaces& all) const {
    std::set<std::string> names;
    for (const size_t i : all.convolutions) names.insert(model_.nodes[i].outputs[0]);
    for (const size_t i : all.products) names.insert(model_.nodes[i].outputs[0]);
    std::vector<std::pair<double, std::string>> order;
    for (const std::string& name : names) {
      std::set<std::string> others = names;
      others.erase(name);
      order.emplace_back(cosine(int8(others), std::min(batches_.size(), kSensitivityBatches)),
                         name);
    }
    std::ranges::sort(order);
    std::vector<std::string> sorted;
    for (auto& [cosine, name] : order) sorted.push_back(std::move(name));
    return sorted;
  }

  const QuantizeOptions& options_;
  std::span<const Tensor> batches_;
  const Device& device_;
  const std::function<void(const std::string&)>& say_;
  std::vector<std::string> until_;
  Model model_;
  std::map<std::string, Activation> seen_;
  std::vector<Tensor> wanted_;  // of f32
  int64_t smoothed_ = 0;
};

}  // namespace

double mean_cosine(std::span<const Tensor> a, std::span<const Tensor> b) {
  double sum = 0, rows = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    const std::vector<double> x = a[k].to_doubles(), y = b[k].to_doubles();
    const auto n = static_cast<size_t>(a[k].shape()[0]), width = x.size() / n;
    for (size_t r = 0; r < n; ++r) {
      double xy = 0, xx = 0, yy = 0;
      for (size_t i = r * width; i < (r + 1) * width; ++i) {
        xy += x[i] * y[i], xx += x[i] * x[i], yy += y[i] * y[i];
      }
      sum += xx == yy && xx == 0 ? 1 : xy / std::max(1e-300, std::sqrt(xx * yy));
      ++rows;
    }
  }
  return sum / std::max(1.0, rows);
}

Quantization quantize(const Model& model, std::span<const Tensor> batches, const Device& device,
                      const QuantizeOptions& options,
                      const std::function<void(const std::string&)>& say) {
  if (model.inputs.size() != 1) {
    throw Error("the model takes ", model.inputs.size(),
                " inputs; a photo model has one: give the others by ndtrain model import --input "
                "NAME=VALUE");
  }
  return Quantizer(model, batches, device, options, say).run();
}

}  // namespace ndtrain
