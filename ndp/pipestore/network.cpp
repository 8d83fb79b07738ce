#include "ndp/pipestore/network.h"

#include <cstring>

#include "framework/core/finite.h"
#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "framework/graph/precision.h"
#include "framework/passes/inference.h"
#include "framework/runtime/product_rate.h"
#include "framework/train/step_graph.h"
#include "ndp/engine/numerics.h"

namespace ndtrain::ndp {

Extractor::Extractor(std::shared_ptr<const ModelFile> of, bool is_whole, const Device& device,
                     const EngineOptions& options)
    : file(std::move(of)),
      model(*file),
      whole(is_whole),
      features{.extractor = extractor_id(model.model, model.preprocess),
               .row_types = row_types_of(model.model),
               .numerics = numerics_tag(feature_numerics(device))},
      plans(
          [this](int64_t b) {
            return inference_graph(model.model, b, whole ? with_plain_logits : nullptr);
          },
          device, options.batch),
      engine(plans, model.preprocess, options) {
  if (declared_precision(model.model) != Precision::kInt8) return;
  const std::string slow = why_bytes_gain_nothing(device);
  if (!slow.empty()) {
    log::warn("extractor {} is int8, which gains nothing: {}", to_hex(features.extractor), slow);
  }
}

namespace {

// Null without a head, which must outlive them.
std::unique_ptr<BatchPlans> plans_of(const ModelFile* head, const Device& device,
                                     const EngineOptions& options) {
  if (!head) return nullptr;
  return std::make_unique<BatchPlans>(
      [head](int64_t b) { return inference_graph(head->model, b, with_plain_logits); }, device,
      options.batch);
}

}  // namespace

Network::Network(std::shared_ptr<const ModelFile> extractor, std::unique_ptr<ModelFile> head,
                 bool labels, const Device& device, const EngineOptions& options)
    : extractor_(
          std::make_shared<Extractor>(std::move(extractor), labels && !head, device, options)),
      head_(std::move(head)),
      row_bytes_(extractor_->features.row_bytes()),
      head_plans_(plans_of(head_.get(), device, options)) {}

Network::Network(std::shared_ptr<Extractor> extractor, std::unique_ptr<ModelFile> head,
                 const Device& device, const EngineOptions& options)
    : extractor_(std::move(extractor)),
      head_(std::move(head)),
      row_bytes_(extractor_->features.row_bytes()),
      head_plans_(plans_of(head_.get(), device, options)) {}

std::vector<std::string> Network::rows(const std::vector<Tensor>& outputs, size_t n) const {
  std::vector<std::string> rows(n);
  for (size_t r = 0; r < n; ++r) {
    for (const Tensor& t : outputs) {
      const size_t bytes = bytes_of_row(t.type());
      rows[r].append(static_cast<const char*>(t.data()) + r * bytes, bytes);
    }
  }
  return rows;
}

bool Network::is_finite(std::string_view row) const {
  for (const TensorType& t : features().row_types) {
    const std::string_view values = row.substr(0, bytes_of_row(t));
    if (!all_finite(t.dtype, std::as_bytes(std::span(values)))) return false;
    row.remove_prefix(values.size());
  }
  return true;
}

std::vector<std::vector<ClassScore>> Network::classify(std::span<const std::string> rows,
                                                       int64_t k) {
  const auto count = static_cast<int64_t>(rows.size());
  std::vector<Tensor> inputs;
  size_t offset = 0;
  for (const TensorType& t : features().row_types) {
    Tensor& input = inputs.emplace_back(TensorType{t.dtype, t.shape.with(0, count)});
    const size_t bytes = bytes_of_row(t);
    for (size_t r = 0; r < rows.size(); ++r) {
      std::memcpy(static_cast<std::byte*>(input.mutable_data()) + r * bytes,
                  rows[r].data() + offset, bytes);
    }
    offset += bytes;
  }
  const std::vector<Tensor> outputs = head_plans_ ? head_plans_->run(inputs) : std::move(inputs);
  const auto classes = static_cast<size_t>(outputs[0].shape().count(1, outputs[0].shape().rank()));
  std::vector<std::vector<ClassScore>> best;
  for (size_t r = 0; r < rows.size(); ++r) {
    best.push_back(best_classes(outputs[0].as<float>().subspan(r * classes, classes), k));
  }
  return best;
}

}  // namespace ndtrain::ndp
