#include "framework/sparse/sync/error_feedback.h"

#include <algorithm>

#include "framework/sparse/sync/whole_gradient.h"
#include "framework/train/state_entry.h"

namespace ndtrain {

ErrorFeedback::ErrorFeedback(std::span<const ParameterSlot> slots,
                             std::unique_ptr<Compressor> compressor, uint64_t seed,
                             ValueCoding wire, double momentum, Pieces pieces)
    : compressor_(std::move(compressor)),
      wire_(wire),
      momentum_(static_cast<float>(momentum)),
      pieces_(pieces) {
  if (!(momentum >= 0 && momentum < 1)) throw Error("momentum is ", momentum, ": 0 to below 1");
  if (pieces.rank < 0 || pieces.rank >= pieces.count) {
    throw Error("rank ", pieces.rank, " of ", pieces.count, " pieces");
  }
  if (pieces.count > 1 && compressor_->takes_all()) {
    throw Error("signs are of all elements of a tensor, not of a piece");
  }
  for (const ParameterSlot& slot : slots) {
    const auto size = static_cast<size_t>(slot.range.size());
    slots_.push_back({.name = slot.name,
                      .shape = slot.shape,
                      .rng = Rng(seed, slot.name),
                      .left = std::vector<float>(size),
                      .velocity = std::vector<float>(momentum > 0 ? size : 0),
                      .states = std::vector<CompressorState>(static_cast<size_t>(pieces.count))});
  }
}

ParameterRange ErrorFeedback::piece(const Slot& slot, int rank) const {
  const auto n = static_cast<int64_t>(slot.left.size());
  const int64_t p = (slot.takes + rank) % pieces_.count;
  return {n * p / pieces_.count, n * (p + 1) / pieces_.count};
}

int64_t ErrorFeedback::elements(size_t slot, int64_t k, int rank) const {
  const int64_t n = piece(slots_[slot], rank).size();
  return compressor_->takes_all() ? n : std::min(k, n);
}

void ErrorFeedback::add(size_t slot, std::span<const float> gradient) {
  std::vector<float>&left = slots_[slot].left, &velocity = slots_[slot].velocity;
  if (velocity.empty()) {
    add_to(left, gradient.data());
    return;
  }
  for (size_t i = 0; i < left.size(); ++i) {
    velocity[i] = momentum_ * velocity[i] + gradient[i];
    left[i] += velocity[i];
  }
}

void ErrorFeedback::take(size_t slot, int64_t k, CompressorScratch& scratch, Selection& out) {
  Slot& s = slots_[slot];
  const ParameterRange range = piece(s, pieces_.rank);
  const int64_t number = s.takes++ + pieces_.rank;
  out.indices.clear();
  out.values.clear();
  if (range.size() == 0) return;  // a tensor of fewer elements than pieces
  compressor_->take(std::span(s.left).subspan(static_cast<size_t>(range.begin),
                                              static_cast<size_t>(range.size())),
                    k, s.rng, s.states[static_cast<size_t>(number % pieces_.count)], scratch, out);
  for (uint32_t& i : out.indices) i += static_cast<uint32_t>(range.begin);
  if (!s.velocity.empty()) {
    for (const uint32_t i : out.indices) s.velocity[i] = 0;
  }
  if (wire_ == ValueCoding::kF32) return;
  scratch.exact = out.values;
  round_to_coding(out.values, wire_);
  for (size_t i = 0; i < out.values.size(); ++i) {
    s.left[out.indices[i]] += scratch.exact[i] - out.values[i];
  }
}

void ErrorFeedback::put_back(size_t slot, const Selection& taken, std::span<const size_t> places) {
  for (const size_t place : places) slots_[slot].left[taken.indices[place]] += taken.values[place];
}

std::map<std::string, Tensor> ErrorFeedback::state() const {
  const int64_t two_each = int64_t{2} * pieces_.count;
  std::map<std::string, Tensor> all;
  for (const Slot& s : slots_) {
    std::vector<float> threshold;
    std::vector<int64_t> pass;
    for (const CompressorState& state : s.states) {
      threshold.insert(threshold.end(), {state.threshold, state.increment});
      pass.insert(pass.end(), {state.begin, state.step});
    }
    all.emplace(s.name + ".residual", Tensor::of<float>(DType::kF32, s.shape, s.left));
    if (!s.velocity.empty()) {
      all.emplace(s.name + ".velocity", Tensor::of<float>(DType::kF32, s.shape, s.velocity));
    }
    all.emplace(s.name + ".threshold", Tensor::of<float>(DType::kF32, {two_each}, threshold));
    all.emplace(s.name + ".pass", Tensor::of<int64_t>(DType::kI64, {two_each}, pass));
    if (pieces_.count > 1) {
      all.emplace(s.name + ".takes", Tensor::of<int64_t>(DType::kI64, {1}, {s.takes}));
    }
  }
  return all;
}

void ErrorFeedback::forget() {
  forget_passes();
  for (Slot& s : slots_) {
    std::ranges::fill(s.left, 0.0F);
    std::ranges::fill(s.velocity, 0.0F);
  }
}

void ErrorFeedback::forget_passes() {
  for (Slot& s : slots_) {
    std::ranges::fill(s.states, CompressorState{});
    s.takes = 0;
  }
}

void ErrorFeedback::restore(const std::map<std::string, Tensor>& state) {
  forget_passes();
  for (Slot& s : slots_) {
    const auto left = state_entry(state, s.name + ".residual", {DType::kF32, s.shape}).as<float>();
    std::ranges::copy(left, s.left.begin());
    if (!s.velocity.empty()) {
      std::ranges::copy(
          state_entry(state, s.name + ".velocity", {DType::kF32, s.shape}).as<float>(),
          s.velocity.begin());
    }
    restore_passes(state, s);
  }
}

void ErrorFeedback::restore_passes(const std::map<std::string, Tensor>& state, Slot& s) const {
  const Shape two_each = {int64_t{2} * pieces_.count};
  const auto kept = state.find(s.name + ".threshold");
  if (kept != state.end() && kept->second.shape() != two_each) return;
  const auto threshold =
      state_entry(state, s.name + ".threshold", {DType::kF32, two_each}).as<float>();
  const auto pass = state_entry(state, s.name + ".pass", {DType::kI64, two_each}).as<int64_t>();
  for (size_t p = 0; p < s.states.size(); ++p) {
    s.states[p] = {.threshold = threshold[2 * p],
                   .increment = threshold[2 * p + 1],
                   .begin = pass[2 * p],
                   .step = pass[2 * p + 1]};
  }
  s.takes = pieces_.count == 1
                ? pass[1]
                : state_entry(state, s.name + ".takes", {DType::kI64, {1}}).as<int64_t>()[0];
}

}  // namespace ndtrain
