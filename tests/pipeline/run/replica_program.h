// A training by stages that several replicas share the rows of, in one process: each replica's rows
// of each stage are computed apart, one after the other, and put together in between.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/pipeline/run/stage_part.h"
#include "framework/train/epochs.h"
#include "framework/train/step_rows.h"
#include "tests/pipeline/run/training_by_stages.h"

namespace ndtrain::testing {

// Values lie by images, all of a micro-batch. After k updates since everything was drained a stage
// computes step k on what it was max(0, k - delay) updates after that.
class ReplicaProgram {
 public:
  struct Stages {
    std::vector<int> replicas;  // of each
    std::function<std::vector<int>(const StepGraph& step, int stages)> cut;
    std::vector<int> delays = {};  // of each; none: 0
    int64_t drain_every = 1;       // steps
  };
  ReplicaProgram(const Network& n, const TrainerConfig& config, Stages stages)
      : network_(n),
        config_(config),
        stages_(std::move(stages)),
        whole_(step_of(1)),
        parameters_(whole_.graph, whole_.trainable, cpu()),
        optimizer_(config.optimizer, parameters_, cpu()) {
    if (stages_.delays.empty()) stages_.delays.assign(stages_.replicas.size(), 0);
    const std::vector<Stage> all = cut(whole_);
    for (size_t s = 0; s < all.size(); ++s) {
      const int replicas = stages_.replicas[s];
      std::map<std::string, Tensor> statistics;
      for (const size_t k : all[s].states) {
        const Value& v = whole_.graph.value(whole_.states[k].param);
        statistics[v.name] = v.data;
      }
      for (int r = 0; r < replicas; ++r) {
        if (!statistics.empty()) {
          statistics_[{s, r}] = std::make_unique<RunningStatistics>(
              statistics, ShardRange{r, r + 1}, replicas, cpu());
        }
        gradients_[{s, r}] =
            std::make_unique<ShardSums>(parameters_.size(), ShardRange{r, r + 1}, replicas, cpu());
      }
    }
  }

  Bytes train(int64_t rows, int64_t epochs = kEpochs) {
    TensorDataset data = stripes(rows, 3);
    Bytes bytes;
    for (int64_t e = 0; e < epochs; ++e) {
      EpochResult result;
      parts_ = 0;
      run_epoch({config_, {}, !whole_.states.empty()}, data.size(), counts_, result,
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
  using Place = std::pair<size_t, int>;                     // a stage, and its replica
  using Whole = std::map<ValueId, std::vector<std::byte>>;  // of all images

  // A replica's rows of a stage.
  struct Part {
    std::unique_ptr<StepGraph> step;
    std::unique_ptr<Stage> stage;
    std::unique_ptr<RankState> state;
    std::unique_ptr<StagePart> forward, backward;
  };

  StepGraph step_of(int64_t rows) const {
    return make_step_graph(bind(network_.model, rows), network_.trained, config_.label_smoothing);
  }
  std::vector<Stage> cut(const StepGraph& step) const {
    return make_stages(step, stages_.cut(step, static_cast<int>(stages_.replicas.size())));
  }

  Part& part_of(const Place& place, int64_t rows) {
    Part& p = ready_[{place, rows}];
    if (p.step) return p;
    p.step = std::make_unique<StepGraph>(step_of(rows));
    p.stage = std::make_unique<Stage>(cut(*p.step)[place.first]);
    p.state = std::make_unique<RankState>(
        RankState{cpu(), parameters_, *gradients_.at(place), statistics_[place].get()});
    p.forward = std::make_unique<StagePart>(*p.step, *p.stage, p.stage->forward, *p.state);
    if (p.stage->trains()) {
      p.backward = std::make_unique<StagePart>(*p.step, *p.stage, p.stage->backward, *p.state);
    }
    return p;
  }

  // Floor((rows + r) / n) for replica r.
  static std::pair<int64_t, int64_t> rows_of_replica(int64_t rows, int r, int n) {
    int64_t begin = 0;
    for (int before = 0; before < r; ++before) begin += (rows + before) / n;
    return {begin, (rows + r) / n};
  }

  static void take(const Whole& from, ValueId v, int64_t begin, int64_t rows, int64_t of,
                   StageValues& to) {
    const std::vector<std::byte>& all = from.at(v);
    const size_t row = all.size() / static_cast<size_t>(of);
    std::memcpy(to.write(v), all.data() + static_cast<size_t>(begin) * row,
                static_cast<size_t>(rows) * row);
  }
  static void put(const StageValues& from, ValueId v, int64_t begin, int64_t rows, int64_t of,
                  Whole& to) {
    const size_t row = from.type(v).bytes() / static_cast<size_t>(rows);
    to[v].resize(row * static_cast<size_t>(of));
    std::memcpy(to[v].data() + static_cast<size_t>(begin) * row, from.read(v),
                static_cast<size_t>(rows) * row);
  }

  void run_step(Dataset& data, const RowOrder& order, const EpochStep& step) {
    const std::span<const int64_t> rows = order.rows(0, step.step);
    int64_t parts = config_.parts_of(std::ssize(rows), !whole_.states.empty());
    const int most = std::ranges::max(stages_.replicas);
    if (most > 1)
      parts = std::min(parts, std::ssize(rows) / (int64_t{most} * (whole_.states.empty() ? 1 : 2)));
    if (step.step % stages_.drain_every == 0 || parts != parts_) versions_.clear();
    parts_ = parts;
    versions_.emplace_back(parameters_.values(), parameters_.values(parameters_.size()));
    const HyperParameters hyper = optimizer_.next(step.lr);
    optimizer_.leave_out();
    std::vector<ShardReport> reports(static_cast<size_t>(stages_.replicas.back()));
    for (int k = 0; k < parts; ++k) {
      run_part(data, rows, {.number = k, .parts = static_cast<int>(parts)}, hyper.step, reports);
    }
    std::ranges::copy(versions_.back(), parameters_.values());
    for (size_t s = 0; s < stages_.replicas.size(); ++s) {
      take_mean_of_statistics(s);
      update(s, hyper);
    }
    optimizer_.set_steps(hyper.step);
    counts_.add(sum_of(reports), std::ssize(rows));
  }

  void compute_with(size_t stage) {
    const int64_t version = std::max<int64_t>(0, std::ssize(versions_) - 1 - stages_.delays[stage]);
    std::ranges::copy(versions_[static_cast<size_t>(version)], parameters_.values());
  }

  void run_part(Dataset& data, std::span<const int64_t> rows, const ShardPart& part, int64_t number,
                std::vector<ShardReport>& reports) {
    const std::span<const int64_t> all = rows_of_part(rows, part.number, part.parts);
    const int64_t of = std::ssize(all);
    Whole activations, gradients;
    std::map<Place, std::vector<StageValues>> has;  // what came in, was made, and gradients
    const auto each_replica = [&](size_t s, const auto& f) {
      compute_with(s);
      for (int r = 0; r < stages_.replicas[s]; ++r) {
        const auto [begin, n] = rows_of_replica(of, r, stages_.replicas[s]);
        Part& p = part_of({s, r}, n);
        MicroBatch m{.part = part, .parameters = parameters_.values()};
        m.part.shard = r;
        f(r, begin, n, p, m);
      }
    };
    for (size_t s = 0; s < stages_.replicas.size(); ++s) {
      each_replica(s, [&](int r, int64_t begin, int64_t n, Part& p, const MicroBatch& m) {
        std::vector<StageValues>& values = has[{s, r}];
        for (int k = 0; k < 3; ++k) values.emplace_back(p.step->graph, cpu());
        const auto own = all.subspan(static_cast<size_t>(begin), static_cast<size_t>(n));
        const auto fetched = fetch(data, own, std::ssize(rows), m.part, number, p, values[0]);
        for (const StagePort& port : p.stage->activations_in) {
          take(activations, port.value, begin, n, of, values[0]);
        }
        const StageValues* const there[] = {values.data()};
        p.forward->run(m, there, values[1]);
        for (const StagePort& port : p.stage->activations_out) {
          put(values[1], port.value, begin, n, of, activations);
        }
        if (s + 1 < stages_.replicas.size()) return;
        const ValueId loss = p.step->graph.outputs()[0], logits = p.step->graph.outputs()[1];
        Tensor made(p.step->graph.type(logits));
        const StageValues& with = values[1].has(logits) ? values[1] : values[0];
        std::memcpy(made.mutable_data(), with.read(logits), made.bytes());
        float of_loss = 0;
        std::memcpy(&of_loss, values[1].read(loss), sizeof of_loss);
        add_rows(reports[static_cast<size_t>(r)], of_loss, made,
                 {*fetched.features, *fetched.labels, *fetched.weights}, n);
      });
    }
    for (size_t s = stages_.replicas.size(); s-- > 0;) {
      each_replica(s, [&](int r, int64_t begin, int64_t n, Part& p, const MicroBatch& m) {
        if (!p.backward) return;
        std::vector<StageValues>& values = has.at({s, r});
        for (const StagePort& port : p.stage->gradients_in) {
          take(gradients, port.value, begin, n, of, values[2]);
        }
        const StageValues* const there[] = {&values[0], &values[1], &values[2]};
        p.backward->run(m, there, values[2]);
        for (const StagePort& port : p.stage->gradients_out) {
          put(values[2], port.value, begin, n, of, gradients);
        }
      });
    }
  }

  struct Fetched {
    std::unique_ptr<std::vector<Tensor>> features;
    std::unique_ptr<Tensor> labels, weights;
  };
  Fetched fetch(Dataset& data, std::span<const int64_t> rows, int64_t of, const ShardPart& part,
                int64_t number, const Part& p, StageValues& to) const {
    const Graph& g = p.step->graph;
    Fetched f{std::make_unique<std::vector<Tensor>>(),
              std::make_unique<Tensor>(g.type(p.step->labels)),
              std::make_unique<Tensor>(g.type(p.step->weights))};
    for (const ValueId v : p.step->features) f.features->emplace_back(g.type(v));
    fetch_rows(data, rows, of, g.shape(g.outputs()[1])[1], {*f.features, *f.labels, *f.weights});
    for (size_t k = 0; k < f.features->size(); ++k) {
      const Tensor& t = (*f.features)[k];
      std::memcpy(to.write(p.step->features[k]), t.data(), t.bytes());
    }
    std::memcpy(to.write(p.step->labels), f.labels->data(), f.labels->bytes());
    std::memcpy(to.write(p.step->weights), f.weights->data(), f.weights->bytes());
    if (p.step->dropout_seed != kNone) {
      const int64_t seed[] = {
          static_cast<int64_t>(seed_of_part(config_.seed, part.shard, part.number)), number - 1};
      std::memcpy(to.write(p.step->dropout_seed), seed, sizeof seed);
    }
    return f;
  }

  // Pair by pair, as a tree has it.
  static Values sum_of_values(std::vector<Values> sums) {
    while (sums.size() > 1) {
      std::vector<Values> next;
      for (size_t k = 0; k < sums.size(); k += 2) {
        next.push_back(sums[k]);
        for (size_t i = 0; k + 1 < sums.size() && i < next.back().size(); ++i) {
          next.back()[i] = sums[k][i] + sums[k + 1][i];
        }
      }
      sums = std::move(next);
    }
    return sums[0];
  }

  void take_mean_of_statistics(size_t stage) {
    if (!statistics_[{stage, 0}]) return;
    std::vector<Values> all;
    for (int r = 0; r < stages_.replicas[stage]; ++r) {
      RunningStatistics& of = *statistics_.at({stage, r});
      of.add(r);
      all.emplace_back(of.sums()[0], of.sums()[0] + of.size());
    }
    const Values sum = sum_of_values(all);
    for (int r = 0; r < stages_.replicas[stage]; ++r) {
      RunningStatistics& of = *statistics_.at({stage, r});
      std::ranges::copy(sum, of.sums()[0]);
      of.advance();
    }
  }

  void update(size_t stage, const HyperParameters& hyper) {
    std::vector<Values> all;
    for (int r = 0; r < stages_.replicas[stage]; ++r) {
      const float* const own = gradients_.at({stage, r})->shard(r);
      all.emplace_back(own, own + parameters_.size());
    }
    Values sum = sum_of_values(all);
    const Stage of_one = cut(whole_)[stage];
    for (const ValueId v : of_one.parameters) {
      const ParameterRange range =
          parameters_.slots()[parameters_.slot(whole_.graph.value(v).name)].range;
      float* const values = parameters_.values(range.begin);
      optimizer_.apply(range, hyper, sum.data() + range.begin, values, values);
    }
  }

  Checkpoint checkpoint() const {
    Checkpoint c;
    for (size_t i = 0; i < parameters_.slots().size(); ++i) {
      c.parameters[parameters_.slots()[i].name] = parameters_.copy(i);
    }
    for (const auto& [_, s] : statistics_) {
      if (s) c.states.merge(s->copy());
    }
    c.optimizer = optimizer_.state();
    c.optimizer_steps = optimizer_.steps();
    counts_.save(c);
    return c;
  }

  const Network network_;
  const TrainerConfig config_;
  Stages stages_;
  const StepGraph whole_;
  ParameterSpace parameters_;
  Optimizer optimizer_;
  std::map<Place, std::unique_ptr<RunningStatistics>> statistics_;
  std::map<Place, std::unique_ptr<ShardSums>> gradients_;
  std::map<std::pair<Place, int64_t>, Part> ready_;  // by rows, too
  std::vector<Values> versions_;                     // since everything was drained
  int64_t parts_ = 0;
  EpochCounts counts_;
};

}  // namespace ndtrain::testing
