// A training on parameters that are some updates old, one step after the other in one process.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/train/epochs.h"
#include "framework/train/prepared_step.h"
#include "tests/pipeline/run/training_by_stages.h"

namespace ndtrain::testing {

// After k updates since everything was drained step k is computed, forward and back, on what a
// parameter was max(0, k - delay) updates after that; the update is of its newest values.
class DelayedProgram {
 public:
  struct Late {
    std::map<std::string, int> delays;  // of parameters, by name
    int64_t drain_every = 1;            // steps
    Staleness staleness = {};
  };
  DelayedProgram(const Network& n, const TrainerConfig& config, Late late)
      : network_(n),
        config_(config),
        late_(std::move(late)),
        whole_(
            make_step_graph(bind(n.model, 1), n.trained, config.label_smoothing, config.compute)),
        parameters_(whole_.graph, whole_.trainable, cpu()),
        optimizer_(config.optimizer, parameters_, cpu()) {
    std::map<std::string, Tensor> statistics;
    for (const TrainingGraph::State& s : whole_.states) {
      statistics[whole_.graph.value(s.param).name] = whole_.graph.value(s.param).data;
    }
    if (!statistics.empty()) {
      statistics_ = std::make_unique<RunningStatistics>(statistics, ShardRange{}, 1, cpu());
    }
  }

  Bytes train(int64_t epochs = kEpochs) {
    TensorDataset data = stripes(kRows, 3);
    Bytes bytes;
    for (int64_t e = 0; e < epochs; ++e) {
      EpochResult result;
      parts_ = 0;
      run_epoch({config_, {}, statistics_ != nullptr}, data.size(), counts_, result,
                [&](const RowOrder& order, std::span<const EpochStep> steps) {
                  run_step(data, order, steps[0]);
                },
                {});
      bytes.push_back(bytes_of(checkpoint(), result));
    }
    return bytes;
  }

 private:
  using Values = std::vector<float>;
  Values copy() const { return {parameters_.values(), parameters_.values(parameters_.size())}; }

  void run_step(Dataset& data, const RowOrder& order, const EpochStep& step) {
    const std::span<const int64_t> rows = order.rows(0, step.step);
    const int parts = config_.parts_of(std::ssize(rows), statistics_ != nullptr);
    const bool drained = step.step % late_.drain_every == 0 || parts != parts_;
    parts_ = parts;
    if (drained) since_drained_ = predicted_ = {};
    since_drained_.push_back(copy());
    lr_ = step.lr;
    if (late_.staleness.predict) predict();
    take_old_values();
    const int64_t number = optimizer_.steps() + 1;
    Values sum;
    ShardReport report;
    for (int k = 0; k < parts; ++k) {
      Values gradients = run_part(data, rows, {.number = k, .parts = parts}, number, report);
      if (sum.empty()) sum.assign(gradients.size(), 0.0F);
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] = k == 0 ? gradients[i] : sum[i] + gradients[i];
      }
    }
    if (statistics_) {
      statistics_->add(0);
      statistics_->advance();
    }
    update(sum);
    counts_.add(sum_of({&report, 1}), std::ssize(rows));
  }

  // What the step at hand computes a parameter with.
  const float* old(const ParameterSlot& slot) const {
    const auto& versions = late_.staleness.predict ? predicted_ : since_drained_;
    const int64_t version =
        std::max<int64_t>(0, std::ssize(versions) - 1 - late_.delays.at(slot.name));
    return versions[static_cast<size_t>(version)].data() + slot.range.begin;
  }

  void take_old_values() {
    for (const ParameterSlot& slot : parameters_.slots()) {
      std::copy_n(old(slot), slot.range.size(), parameters_.values(slot.range.begin));
    }
  }

  double lr_of(const ParameterSlot& slot) const {
    const double delay = late_.delays.at(slot.name);
    const auto all = static_cast<double>(late_.staleness.lr_scale_steps);
    if (all == 0 || delay == 0) return lr_;
    const double done = std::min(1.0, static_cast<double>(optimizer_.steps()) / all);
    return lr_ * std::pow(delay, done - 1);
  }

  // Of the newest version what is expected when its updates are applied.
  void predict() {
    predicted_.push_back(since_drained_.back());
    const float* const momentum = optimizer_.moments({0, parameters_.size()})[0];
    for (const ParameterSlot& slot : parameters_.slots()) {
      const auto by = static_cast<float>(late_.delays.at(slot.name) * lr_of(slot));
      for (int64_t i = slot.range.begin; i < slot.range.end; ++i) {
        const float expected = momentum[i] * by;
        predicted_.back()[static_cast<size_t>(i)] -= expected;
      }
    }
  }

  void update(Values& gradients) {
    const Values& newest = since_drained_.back();
    std::ranges::copy(newest, parameters_.values());
    for (const ParameterSlot& slot : parameters_.slots()) {
      const HyperParameters hyper = optimizer_.next(lr_of(slot));
      optimizer_.leave_out();
      float* const g = gradients.data() + slot.range.begin;
      if (late_.staleness.compensation > 0 && late_.delays.at(slot.name) > 0) {
        const auto by = static_cast<float>(late_.staleness.compensation);
        for (int64_t i = 0; i < slot.range.size(); ++i) {
          const float moved = newest[static_cast<size_t>(slot.range.begin + i)] - old(slot)[i];
          const float square = g[i] * g[i];
          const float more = square * moved;
          const float weighed = more * by;
          g[i] += weighed;
        }
      }
      float* const values = parameters_.values(slot.range.begin);
      optimizer_.apply(slot.range, hyper, g, values, values);
    }
    optimizer_.set_steps(optimizer_.steps() + 1);
  }

  Values run_part(Dataset& data, std::span<const int64_t> rows, const ShardPart& part,
                  int64_t number, ShardReport& report) {
    const std::span<const int64_t> own = rows_of_part(rows, part.number, part.parts);
    const int64_t batch = statistics_ ? std::ssize(own) : config_.most_rows();
    std::unique_ptr<PreparedStep>& step = steps_[batch];
    if (!step) {
      step = std::make_unique<PreparedStep>(
          make_step_graph(bind(network_.model, batch), network_.trained, config_.label_smoothing,
                          config_.compute),
          cpu(), parameters_);
    }
    step->fetch(data, own, std::ssize(rows));
    Values gradients(static_cast<size_t>(parameters_.size()));
    step->run({.part = part,
               .seed = config_.seed,
               .step = number,
               .gradients = gradients.data(),
               .statistics = statistics_.get()},
              {});
    step->report(part, std::ssize(own), report);
    return gradients;
  }

  Checkpoint checkpoint() const {
    Checkpoint c;
    for (size_t i = 0; i < parameters_.slots().size(); ++i) {
      c.parameters[parameters_.slots()[i].name] = parameters_.copy(i);
    }
    if (statistics_) c.states = statistics_->copy();
    c.optimizer = optimizer_.state();
    c.optimizer_steps = optimizer_.steps();
    counts_.save(c);
    return c;
  }

  const Network network_;
  const TrainerConfig config_;
  const Late late_;
  const StepGraph whole_;
  ParameterSpace parameters_;
  Optimizer optimizer_;
  std::unique_ptr<RunningStatistics> statistics_;           // null: the model has none
  std::map<int64_t, std::unique_ptr<PreparedStep>> steps_;  // by rows
  std::vector<Values> since_drained_, predicted_;           // all versions, the newest is last
  double lr_ = 0;
  int parts_ = 0;  // of the step before
  EpochCounts counts_;
};

}  // namespace ndtrain::testing
