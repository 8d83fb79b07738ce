#include "framework/sparse/low_rank/power_sgd.h"

#include <algorithm>
#include <utility>

#include "framework/comm/wire_type.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/rng.h"
#include "framework/core/stopwatch.h"
#include "framework/sparse/sync/whole_gradient.h"
#include "framework/train/state_entry.h"

namespace ndtrain {
namespace {

constexpr const char* kLeft = ".residual";
constexpr const char* kFactor = ".factor";

MatrixSize matrix_of(const Shape& shape) {
  if (shape.rank() < 2) return {};
  return {.rows = shape[0], .columns = shape.count(1, shape.rank())};
}

}  // namespace

PowerSgd::PowerSgd(const Trainer::Shared& shared, Communicator& communicator,
                   std::vector<int> first_shards, const PowerSgdOptions& options)
    : shared_(shared),
      options_(options),
      sites_(communicator, options.sites),
      reports_(shared, communicator, communicator.members(), std::move(first_shards)),
      gradient_(shared, communicator, sites_),
      vote_(shared, gradient_),
      sums_(communicator, sites_),
      step_(shared.parameters, shared.optimizer) {
  check_wire_type(options.wire);
  if (options.rank < 1 || options.rank > limits::kPowerSgdRank) {
    throw Error("factors of rank ", options.rank, ": 1 to ", limits::kPowerSgdRank);
  }
  if (!shared.device.shares_host_memory()) {
    throw Error("low-rank gradients are made in memory of the host, which the device has not");
  }
  const std::span<const ParameterSlot> slots = shared.parameters.slots();
  size_t p = 0, q = 0, whole = 0;
  for (size_t s = 0; s < slots.size(); ++s) {
    const MatrixSize size = matrix_of(slots[s].shape);
    const int64_t n = slots[s].range.size();
    if (size.rows == 0 || (size.rows + size.columns) * options.rank >= n) {
      whole_.push_back(s);
      whole += static_cast<size_t>(n);
      continue;
    }
    matrices_.push_back({.slot = s,
                         .size = size,
                         .p = p,
                         .q = q,
                         .left = std::vector<float>(static_cast<size_t>(n))});
    p += static_cast<size_t>(size.rows * options.rank);
    q += static_cast<size_t>(size.columns * options.rank);
  }
  whole_begin_ = p;
  p_.resize(p + whole);
  q_.resize(q);
  forget_what_is_shared();
}

std::span<float> PowerSgd::p_of(const Matrix& m) {
  return std::span(p_).subspan(m.p, static_cast<size_t>(m.size.rows * options_.rank));
}

std::span<float> PowerSgd::q_of(const Matrix& m) {
  return std::span(q_).subspan(m.q, static_cast<size_t>(m.size.columns * options_.rank));
}

std::span<float> PowerSgd::gradient_of(size_t slot) const {
  const ParameterRange range = shared_.parameters.slots()[slot].range;
  return {shared_.gradients.sums()[0] + range.begin, static_cast<size_t>(range.size())};
}

void PowerSgd::begin(const HyperParameters& hyper) {
  step_.begin(hyper);
  gradient_.enqueue();
  reports_.enqueue();
}

void PowerSgd::backward_done() {
  if (!vote_.is_finite()) {
    ++left_out_;
    log::warn("a step is left out: gradients are not finite");
    shared_.optimizer.leave_out();
    return;
  }
  for (Matrix& m : matrices_) {
    add_to(m.left, gradient_of(m.slot).data());
    multiply(m.left, m.size, q_of(m), p_of(m));
  }
  copy_whole_ones(/*back=*/false);
  add_up(p_, "P");
  copy_whole_ones(/*back=*/true);
  for (const Matrix& m : matrices_) {
    orthonormalise(p_of(m), m.size.rows);
    multiply_transposed(m.left, m.size, p_of(m), q_of(m));
  }
  add_up(q_, "Q");
  const float part = 1.0F / static_cast<float>(sites_.count());
  for (Matrix& m : matrices_) {
    const std::span<float> sum = gradient_of(m.slot);
    add_up_products(p_of(m), q_of(m), m.size, sum);
    for (size_t i = 0; i < m.left.size(); ++i) m.left[i] -= part * sum[i];
  }
  step_.backward_done();
  ++steps_;
}

// Gradients that travel whole lie behind the factors P, or back where gradients are.
void PowerSgd::copy_whole_ones(bool back) {
  auto at = p_.begin() + static_cast<std::ptrdiff_t>(whole_begin_);
  for (const size_t slot : whole_) {
    const std::span<float> gradient = gradient_of(slot);
    if (back) {
      std::copy_n(at, gradient.size(), gradient.begin());
    } else {
      std::ranges::copy(gradient, at);
    }
    at += std::ssize(gradient);
  }
}

void PowerSgd::add_up(std::vector<float>& values, const char* name) {
  if (values.empty()) return;
  const Stopwatch waits(exposed_s_);
  sums_.begin(values, name, options_.wire);
  sums_.end();
}

std::map<std::string, Tensor> PowerSgd::state() const {
  std::map<std::string, Tensor> all;
  for (const Matrix& m : matrices_) {
    const ParameterSlot& slot = shared_.parameters.slots()[m.slot];
    const auto from = q_.begin() + static_cast<std::ptrdiff_t>(m.q);
    const std::vector<float> q(from, from + m.size.columns * options_.rank);
    all.emplace(slot.name + kLeft, Tensor::of<float>(DType::kF32, slot.shape, m.left));
    all.emplace(slot.name + kFactor,
                Tensor::of<float>(DType::kF32, {options_.rank, m.size.columns}, q));
  }
  return all;
}

void PowerSgd::restore(const std::map<std::string, Tensor>& state) {
  for (Matrix& m : matrices_) {
    const ParameterSlot& slot = shared_.parameters.slots()[m.slot];
    std::ranges::copy(state_entry(state, slot.name + kLeft, {DType::kF32, slot.shape}).as<float>(),
                      m.left.begin());
    std::ranges::copy(
        state_entry(state, slot.name + kFactor, {DType::kF32, {options_.rank, m.size.columns}})
            .as<float>(),
        q_of(m).begin());
  }
}

void PowerSgd::forget() {
  for (Matrix& m : matrices_) std::ranges::fill(m.left, 0.0F);
  forget_what_is_shared();
}

// Factors of independent normal values, the same on all ranks.
void PowerSgd::forget_what_is_shared() {
  for (const Matrix& m : matrices_) {
    Rng rng(options_.seed, shared_.parameters.slots()[m.slot].name + kFactor);
    for (float& x : q_of(m)) x = static_cast<float>(rng.next_normal());
  }
}

}  // namespace ndtrain
