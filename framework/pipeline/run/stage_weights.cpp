#include "framework/pipeline/run/stage_weights.h"

#include <algorithm>
#include <vector>

namespace ndtrain {
namespace {

// W - by m
Graph predicting(int64_t n) {
  const TensorType flat{DType::kF32, {n}};
  Graph g;
  const ValueId by = g.add_input("by", {DType::kF32, {}});
  const ValueId values = g.add_input("values", flat), momentum = g.add_input("momentum", flat);
  g.mark_output(g.add1("Sub", {values, g.add1("Mul", {momentum, by})}));
  return g;
}

// g + by g g (W - V)
Graph compensating(int64_t n) {
  const TensorType flat{DType::kF32, {n}};
  Graph g;
  const ValueId by = g.add_input("by", {DType::kF32, {}});
  const ValueId gradients = g.add_input("gradients", flat);
  const ValueId values = g.add_input("values", flat), old = g.add_input("old", flat);
  const ValueId square = g.add1("Mul", {gradients, gradients});
  const ValueId moved = g.add1("Mul", {square, g.add1("Sub", {values, old})});
  g.mark_output(g.add1("Add", {gradients, g.add1("Mul", {moved, by})}));
  return g;
}

}  // namespace

struct StageWeights::Elementwise {
  Elementwise(const Graph& g, const Device& device)
      : plan(g, device), executor(plan), by(device, {DType::kF32, {}}) {}
  void run(double factor, std::vector<const void*> in, float* to) {
    by.host().mutable_as<float>()[0] = static_cast<float>(factor);
    by.send();
    in.insert(in.begin(), by.data());
    executor.run(in, std::vector<void*>{to});
  }
  Plan plan;
  Executor executor;
  StagedTensor by;
};

StageWeights::StageWeights(ParameterSpace& parameters, Optimizer& optimizer, const Device& device,
                           int updates_late, const Staleness& staleness)
    : parameters_(parameters),
      optimizer_(optimizer),
      device_(device),
      updates_late_(parameters.size() > 0 ? updates_late : 0),
      staleness_(staleness) {
  staleness_.check(optimizer.config());
  if (updates_late_ == 0) return;
  const int64_t n = parameters.size();
  if (staleness_.predict) {
    predicted_ = DeviceTensor(device, {DType::kF32, {n}});
    predict_ = std::make_unique<Elementwise>(predicting(n), device);
  }
  if (staleness_.compensation > 0) {
    compensate_ = std::make_unique<Elementwise>(compensating(n), device);
  }
}

StageWeights::~StageWeights() = default;

StageWeights::Step StageWeights::next(double lr) {
  lr *= staleness_.lr_factor(updates_late_, optimizer_.steps());
  return {.hyper = optimizer_.next(lr), .lr = lr};
}

void StageWeights::begin(const Step& first) {
  if (updates_late_ == 0) return;
  float* const values = predict_ ? static_cast<float*>(predicted_.data()) : parameters_.values();
  if (!versions_) {
    versions_ = std::make_unique<VersionedParameters>(values, parameters_.size(), updates_late_ + 1,
                                                      device_);
  }
  if (!predict_) return;
  versions_->restart();
  predict(values, first);
}

void StageWeights::predict(float* to, const Step& step) {
  const float* const momentum = optimizer_.moments({0, parameters_.size()})[0];
  predict_->run(updates_late_ * step.lr, {parameters_.values(), momentum}, to);
}

void StageWeights::update(ParameterRange range, const Step& step, const Step* following,
                          float* gradients) {
  float* const in_place = parameters_.values(range.begin);
  if (!versions_) return optimizer_.apply(range, step.hyper, gradients, in_place, in_place);
  const int64_t newest = versions_->newest();
  const float* const from = predict_ ? in_place : versions_->values(newest);
  if (compensate_) {
    const float* const old = versions_->values(std::max<int64_t>(0, newest - updates_late_));
    compensate_->run(staleness_.compensation, {gradients, from, old}, gradients);
  }
  optimizer_.apply(range, step.hyper, gradients, from, predict_ ? in_place : versions_->next());
  if (predict_) predict(versions_->next(), following ? *following : step);
  versions_->publish(range);
}

void StageWeights::drained() {
  if (versions_ && !predict_) versions_->restart();
}

void StageWeights::give_up() { versions_.reset(); }

}  // namespace ndtrain
