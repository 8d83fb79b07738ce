// Local steps of several ranks in one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/sparse/local/local_steps.h"
#include "tests/parallel/training_by_ranks.h"
#include "tests/sparse/serial_ranks.h"

namespace ndtrain::testing {

// A rank that hears of no other: its shards are all there is.
class OfOwnShards final : public GradientSync {
 public:
  OfOwnShards(const Trainer::Shared& shared, float times) : shared_(shared), times_(times) {}
  void begin(const HyperParameters& hyper) override { hyper_ = hyper; }
  bool follows_the_run() const override { return false; }
  void add_up_statistics() override {
    scale(shared_.statistics->sums(), shared_.statistics->size());
  }
  void backward_done() override {
    scale(shared_.gradients.sums(), shared_.parameters.size());
    float* const values = shared_.parameters.values();
    shared_.optimizer.apply({0, shared_.parameters.size()}, hyper_, shared_.gradients.sums()[0],
                            values, values);
  }
  void skip() override {}
  void flush() override {}

 private:
  void scale(const std::vector<float*>& sums, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (const float* tree : sums) sum += tree[i];
      sums[0][i] = times_ * sum;
    }
  }
  Trainer::Shared shared_;
  const float times_;
  HyperParameters hyper_;
};

struct Ways {  // of ranks that train by themselves
  std::vector<double> shares;
  int64_t drain_every = 100;
  LocalStepsOptions options = {};
};

struct Ended {
  std::string checkpoint;  // of rank 0, with its moments
  Values parameters;
  EpochResult result;
};

// The same in one thread, in terms of checkpoints: after each step of all ranks what is due is
// worked out from their parameters.
class SerialProgram {
 public:
  SerialProgram(const TrainerConfig& config, const Ways& ways) : ways_(ways), o_(ways.options) {
    const std::vector<int> first = shards_of_ranks(config.shards, ways.shares);
    for (size_t r = 0; r < ways.shares.size(); ++r) {
      TrainerConfig own = config;
      own.own_shards = ShardRange{first[r], first[r + 1]};
      times_.push_back(static_cast<float>(config.shards) /
                       static_cast<float>(own.own_shards->size()));
      const Model m = small_net(true, 0.3);
      const float times = times_.back();
      ranks_.push_back(std::make_unique<Trainer>(
          m, weights_of(m), cpu(), own, [this, times](const Trainer::Shared& shared) {
            slots_ = {shared.parameters.slots().begin(), shared.parameters.slots().end()};
            return std::make_unique<OfOwnShards>(shared, times);
          }));
      now_.emplace_back();
      results_.emplace_back();
    }
  }

  Ended run() {
    TensorDataset data = stripes(kRows, 3);
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      for (bool ended = false; !ended;) ended = one_step(data);
    }
    Checkpoint c = ranks_[0]->checkpoint();
    EpochResult all = results_[0];
    for (size_t r = 1; r < results_.size(); ++r) {
      all.loss += results_[r].loss;
      all.top1 += results_[r].top1;
      all.top5 += results_[r].top5;
    }
    return {bytes_of(c), values_of(c.parameters), all};
  }

 private:
  struct Sent {
    std::vector<std::string> names;
    std::vector<Values> of_ranks;
    int64_t due = 0;
  };

  bool one_step(TensorDataset& data) {
    if (step_ == 0) agreed_ = values_of(ranks_[0]->checkpoint().parameters);
    bool ended = false;
    int64_t done = 0;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      ended = ranks_[r]->train_epoch(data, results_[r], [&](int64_t steps, int64_t) {
        done = steps;
        return false;
      });
      now_[r] = ranks_[r]->checkpoint();
    }
    ++step_;
    if (ended || done % ways_.drain_every == 0) {
      drain();
    } else {
      exchange();
    }
    for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r]->restore(now_[r]);
    return ended;
  }

  std::vector<std::string> names_of(const Fragment& f) const {
    std::vector<std::string> names;
    for (size_t s = f.first_slot; s < f.end_slot; ++s) names.push_back(slots_[s].name);
    return names;
  }
  std::vector<Fragment> fragments() const {
    return fragments_of(slots_, o_.fragments, o_.inner_steps);
  }

  void exchange() {
    apply_until(step_, o_.overlap > 0 ? o_.mixing : 0);
    for (const Fragment& f : fragments()) {
      if (step_ >= f.offset && (step_ - f.offset) % o_.inner_steps == 0) {
        send(names_of(f), step_ + o_.overlap);
      }
    }
    apply_until(step_, 0);
  }

  void drain() {
    apply_until(step_ + o_.inner_steps, o_.overlap > 0 ? o_.mixing : 0, true);
    for (const Fragment& f : fragments()) send(names_of(f), step_);
    apply_until(step_, 0);
    std::vector<Values> states;
    for (const Checkpoint& c : now_) states.push_back(values_of(c.states));
    for (auto& [name, mean] : states[0]) {
      for (size_t i = 0; i < mean.size(); ++i) mean[i] = mean_of(states, name, i);
    }
    for (Checkpoint& c : now_) put(states[0], c.states);
    step_ = 0;
  }

  float mean_of(const std::vector<Values>& of_ranks, const std::string& name, size_t i) const {
    std::vector<float> parts;
    for (size_t r = 0; r < of_ranks.size(); ++r) {
      parts.push_back(of_ranks[r].at(name)[i] / times_[r]);
    }
    return sum_of(parts);
  }

  void send(const std::vector<std::string>& names, int64_t due) {
    Sent sent{.names = names, .of_ranks = {}, .due = due};
    for (const Checkpoint& c : now_) {
      Values difference;
      const Values now = values_of(c.parameters);
      for (const std::string& name : names) {
        for (size_t i = 0; i < now.at(name).size(); ++i) {
          difference[name].push_back(agreed_[name][i] - now.at(name)[i]);
        }
      }
      sent.of_ranks.push_back(difference);
    }
    sent_.push_back(sent);
  }

  void apply_until(int64_t step, double mixing, bool all = false) {
    while (!sent_.empty() && (all || sent_.front().due == step)) {
      const Sent sent = sent_.front();
      sent_.erase(sent_.begin());
      for (const std::string& name : sent.names) apply(sent, name, static_cast<float>(mixing));
    }
  }

  void apply(const Sent& sent, const std::string& name, float mixing) {
    const auto lr = static_cast<float>(o_.outer_lr), mu = static_cast<float>(o_.outer_momentum);
    std::vector<float>& agreed = agreed_[name];
    std::vector<float>& v = velocity_[name];
    v.resize(agreed.size());
    for (size_t i = 0; i < agreed.size(); ++i) {
      const float g = mean_of(sent.of_ranks, name, i);
      v[i] = mu * v[i] + g;
      agreed[i] -= lr * (mu > 0 ? g + mu * v[i] : g);
    }
    for (Checkpoint& c : now_) {
      const auto now = c.parameters.at(name).mutable_as<float>();
      for (size_t i = 0; i < agreed.size(); ++i) {
        now[i] = mixing > 0 ? mixing * now[i] + (1 - mixing) * agreed[i] : agreed[i];
      }
    }
  }

  const Ways ways_;
  const LocalStepsOptions o_;
  std::vector<float> times_;
  std::vector<std::unique_ptr<Trainer>> ranks_;
  std::vector<Checkpoint> now_;
  std::vector<EpochResult> results_;
  std::vector<ParameterSlot> slots_;
  Values agreed_, velocity_;
  std::vector<Sent> sent_;
  int64_t step_ = 0;  // since all agreed
};

}  // namespace ndtrain::testing
