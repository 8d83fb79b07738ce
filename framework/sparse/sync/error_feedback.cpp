#include "framework/sparse/sync/error_feedback.h"

#include <algorithm>

#include "framework/comm/wire_type.h"
#include "framework/train/state_entry.h"

namespace ndtrain {
namespace {

// The largest finite value of the type.
float largest_of(DType type) {
  if (type == DType::kF16) return f32_from_f16(0x7bff);
  return type == DType::kBF16 ? f32_from_bf16(0x7f7f) : 0;
}

// As it is received.
float rounded_to_wire(float value, DType type) {
  const float largest = largest_of(type);
  const float bounded = std::clamp(value, -largest, largest);
  return type == DType::kF16 ? f32_from_f16(f16_from_f32(bounded))
                             : f32_from_bf16(bf16_from_f32(bounded));
}

}  // namespace

ErrorFeedback::ErrorFeedback(std::span<const ParameterSlot> slots,
                             std::unique_ptr<Compressor> compressor, uint64_t seed, DType wire,
                             double momentum)
    : compressor_(std::move(compressor)), wire_(wire), momentum_(static_cast<float>(momentum)) {
  check_wire_type(wire);
  if (!(momentum >= 0 && momentum < 1)) throw Error("momentum is ", momentum, ": 0 to below 1");
  for (const ParameterSlot& slot : slots) {
    const auto size = static_cast<size_t>(slot.range.size());
    slots_.push_back({.name = slot.name,
                      .shape = slot.shape,
                      .rng = Rng(seed, slot.name),
                      .left = std::vector<float>(size),
                      .velocity = std::vector<float>(momentum > 0 ? size : 0),
                      .state = {}});
  }
}

void ErrorFeedback::add(size_t slot, std::span<const float> gradient) {
  std::vector<float>&left = slots_[slot].left, &velocity = slots_[slot].velocity;
  if (velocity.empty()) {
    for (size_t i = 0; i < left.size(); ++i) left[i] += gradient[i];
    return;
  }
  for (size_t i = 0; i < left.size(); ++i) {
    velocity[i] = momentum_ * velocity[i] + gradient[i];
    left[i] += velocity[i];
  }
}

void ErrorFeedback::take(size_t slot, int64_t k, CompressorScratch& scratch, Selection& out) {
  Slot& s = slots_[slot];
  compressor_->take(s.left, k, s.rng, s.state, scratch, out);
  if (!s.velocity.empty()) {
    for (const uint32_t i : out.indices) s.velocity[i] = 0;
  }
  if (wire_ == DType::kF32) return;
  for (size_t i = 0; i < out.values.size(); ++i) {
    const float value = out.values[i];
    out.values[i] = rounded_to_wire(value, wire_);
    s.left[out.indices[i]] += value - out.values[i];
  }
}

std::map<std::string, Tensor> ErrorFeedback::state() const {
  std::map<std::string, Tensor> all;
  for (const Slot& s : slots_) {
    const std::vector<float> threshold = {s.state.threshold, s.state.increment};
    const std::vector<int64_t> pass = {s.state.begin, s.state.step};
    all.emplace(s.name + ".residual", Tensor::of<float>(DType::kF32, s.shape, s.left));
    if (!s.velocity.empty()) {
      all.emplace(s.name + ".velocity", Tensor::of<float>(DType::kF32, s.shape, s.velocity));
    }
    all.emplace(s.name + ".threshold", Tensor::of<float>(DType::kF32, {2}, threshold));
    all.emplace(s.name + ".pass", Tensor::of<int64_t>(DType::kI64, {2}, pass));
  }
  return all;
}

void ErrorFeedback::forget() {
  for (Slot& s : slots_) {
    std::ranges::fill(s.left, 0.0F);
    std::ranges::fill(s.velocity, 0.0F);
    s.state = {};
  }
}

void ErrorFeedback::restore(const std::map<std::string, Tensor>& state) {
  for (Slot& s : slots_) {
    const auto left = state_entry(state, s.name + ".residual", {DType::kF32, s.shape}).as<float>();
    const auto threshold =
        state_entry(state, s.name + ".threshold", {DType::kF32, {2}}).as<float>();
    const auto pass = state_entry(state, s.name + ".pass", {DType::kI64, {2}}).as<int64_t>();
    std::ranges::copy(left, s.left.begin());
    if (!s.velocity.empty()) {
      std::ranges::copy(
          state_entry(state, s.name + ".velocity", {DType::kF32, s.shape}).as<float>(),
          s.velocity.begin());
    }
    s.state = {
        .threshold = threshold[0], .increment = threshold[1], .begin = pass[0], .step = pass[1]};
  }
}

}  // namespace ndtrain
