#include "framework/sparse/low_rank/power_sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/sparse/one_tensor.h"
#include "tests/sparse/serial_ranks.h"
#include "tests/sparse/slow_link_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

using One = OneTensorOf<PowerSgd, PowerSgdOptions>;

SlowLinkWay by_power_sgd(const PowerSgdOptions& options) {
  return slow_link_way<PowerSgd>(options);
}

// What a rank's shards add up to is taken down; whoever has those of all ranks applies them.
class TakenDown final : public GradientSync {
 public:
  explicit TakenDown(const Trainer::Shared& shared) : shared_(shared) {}
  void begin(const HyperParameters& hyper) override { hyper_ = hyper; }
  bool follows_the_run() const override { return false; }
  void backward_done() override {}
  void skip() override {}
  void flush() override {}

  std::span<float> gradient(const ParameterSlot& slot) const {
    return {shared_.gradients.sums()[0] + slot.range.begin, static_cast<size_t>(slot.range.size())};
  }
  const ParameterSpace& parameters() const { return shared_.parameters; }
  void apply() {
    float* const values = shared_.parameters.values();
    shared_.optimizer.apply({0, shared_.parameters.size()}, hyper_, shared_.gradients.sums()[0],
                            values, values);
  }

 private:
  Trainer::Shared shared_;
  HyperParameters hyper_;
};

// The same in one thread, each rank of one shard.
class SerialPowerSgd {
 public:
  SerialPowerSgd(const TrainerConfig& config, const PowerSgdOptions& options) : options_(options) {
    for (int r = 0; r < config.shards; ++r) {
      TrainerConfig own = config;
      own.own_shards = ShardRange{r, r + 1};
      const Model m = small_net(true, 0.3);
      ranks_.push_back(std::make_unique<Trainer>(m, weights_of(m), cpu(), own,
                                                 [&](const Trainer::Shared& shared) {
                                                   auto sync = std::make_unique<TakenDown>(shared);
                                                   syncs_.push_back(sync.get());
                                                   return sync;
                                                 }));
    }
    left_.resize(ranks_.size());
  }

  Checkpoint run() {
    TensorDataset data = stripes(kRows, 3);
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      for (bool ended = false; !ended;) ended = one_step(data);
    }
    return ranks_[0]->checkpoint();
  }

 private:
  bool one_step(TensorDataset& data) {
    bool ended = false;
    for (const auto& rank : ranks_) {
      EpochResult result;
      ended = rank->train_epoch(data, result, [](int64_t, int64_t) { return false; });
    }
    for (const ParameterSlot& slot : syncs_[0]->parameters().slots()) step_of(slot);
    std::vector<Checkpoint> now;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      syncs_[r]->apply();
      now.push_back(ranks_[r]->checkpoint());
    }
    for (const auto& [name, t] : now[0].states) {  // of each its part of the mean over the shards
      for (size_t i = 0; i < t.as<float>().size(); ++i) {
        std::vector<float> parts;
        for (const Checkpoint& c : now) parts.push_back(c.states.at(name).as<float>()[i]);
        for (Checkpoint& c : now) c.states.at(name).mutable_as<float>()[i] = sum_of(parts);
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r]->restore(now[r]);
    return ended;
  }

  void step_of(const ParameterSlot& slot) {
    const int64_t rows = slot.shape[0], columns = slot.range.size() / rows, k = options_.rank;
    if (slot.shape.rank() < 2 || (rows + columns) * k >= rows * columns) return step_whole(slot);
    const MatrixSize size{rows, columns};
    std::vector<float>& q = q_[slot.name];
    if (q.empty()) {
      Rng rng(options_.seed, slot.name + ".factor");
      for (int64_t i = 0; i < columns * k; ++i) q.push_back(static_cast<float>(rng.next_normal()));
    }
    std::vector<std::vector<float>> ps, qs;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<float>& left = left_[r][slot.name];
      left.resize(static_cast<size_t>(rows * columns));
      for (size_t i = 0; i < left.size(); ++i) left[i] += syncs_[r]->gradient(slot)[i];
      ps.emplace_back(static_cast<size_t>(rows * k));
      multiply(left, size, q, ps.back());
    }
    std::vector<float> p = added_up(ps);
    orthonormalise(p, rows);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      qs.emplace_back(q.size());
      multiply_transposed(left_[r][slot.name], size, p, qs.back());
    }
    q = added_up(qs);
    std::vector<float> sum(static_cast<size_t>(rows * columns));
    add_up_products(p, q, size, sum);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<float>& left = left_[r][slot.name];
      for (size_t i = 0; i < sum.size(); ++i) {
        left[i] -= sum[i] / static_cast<float>(ranks_.size());
      }
      std::ranges::copy(sum, syncs_[r]->gradient(slot).begin());
    }
  }

  void step_whole(const ParameterSlot& slot) {
    std::vector<std::vector<float>> gradients;
    for (const TakenDown* sync : syncs_) {
      gradients.emplace_back(sync->gradient(slot).begin(), sync->gradient(slot).end());
    }
    const std::vector<float> sum = added_up(gradients);
    for (const TakenDown* sync : syncs_) std::ranges::copy(sum, sync->gradient(slot).begin());
  }

  static std::vector<float> added_up(const std::vector<std::vector<float>>& of_ranks) {
    std::vector<float> sums;
    for (size_t i = 0; i < of_ranks[0].size(); ++i) {
      std::vector<float> parts;
      for (const std::vector<float>& of : of_ranks) parts.push_back(of[i]);
      sums.push_back(sum_of(parts));
    }
    return sums;
  }

  const PowerSgdOptions options_;
  std::vector<std::unique_ptr<Trainer>> ranks_;
  std::vector<TakenDown*> syncs_;
  std::map<std::string, std::vector<float>> q_;
  std::vector<std::map<std::string, std::vector<float>>> left_;  // of each rank
};

TEST(PowerSgd, IsASerialProgram) {
  for (const int ranks : {2, 4}) {
    for (const int rank : {1, 2, 4}) {
      TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kSgd}, ranks);
      config.batch = 12;
      const PowerSgdOptions options{.rank = rank, .seed = 7};
      const std::string expected = bytes_of(SerialPowerSgd(config, options).run());
      on_ranks_that_train(ranks, config, by_power_sgd(options), nullptr,
                          [&](SlowLinkTraining& training, int) {
                            (void)train_on(training, kEpochs);
                            EXPECT_EQ(bytes_of(training.checkpoint()) == expected, true)
                                << ranks << " ranks, rank " << rank;
                          });
    }
  }
}

TEST(PowerSgd, OfFactorsAsLargeAsGradientsIsOneProcess) {
  const TrainerConfig config = config_of({}, 2);
  const Bytes expected = alone(config);
  on_ranks_that_train(2, config, by_power_sgd({.rank = 64}), nullptr,
                      [&](SlowLinkTraining& training, int) {
                        EXPECT_EQ(train_on(training, kEpochs) == expected.back(), true);
                      });
}

TEST(PowerSgd, ResumedIsUnbroken) {
  const TrainerConfig config = config_of({}, 2);
  const SlowLinkWay way = by_power_sgd({.rank = 1});
  MemoryFs fs;
  const Checkpoint saved = stopped_after(1, 2, config, way, fs);
  const std::string expected = unbroken(2, config, way);
  for (const std::string& b : resumed(saved, 2, config, way, fs)) {
    EXPECT_EQ(b == expected, true);
  }
}

TEST(PowerSgd, OfARankThatHasLostItsFileAgreesAllTheSame) {
  const TrainerConfig config = config_of({}, 2);
  const SlowLinkWay way = by_power_sgd({.rank = 1});
  MemoryFs fs;
  const Checkpoint saved = stopped_after(1, 2, config, way, fs);
  fs.remove("run1/rank1-epoch0-step2.safetensors").or_throw();
  ::testing::internal::CaptureStderr();
  const std::vector<std::string> lost = resumed(saved, 2, config, way, fs);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("rank 1 has no file"));
  EXPECT_EQ(lost[0] == lost[1], true);
  EXPECT_EQ(lost[0] == unbroken(2, config, way), false);
}

TEST(PowerSgd, SendsFactors) {
  const TrainerConfig config = config_of({}, 2);
  std::vector<std::string> models;
  for (const DType wire : {DType::kF32, DType::kBF16}) {
    std::vector<std::string> of_ranks(2);
    on_ranks_that_train(
        2, config, by_power_sgd({.rank = 1, .wire = wire}), nullptr,
        [&](SlowLinkTraining& training, int rank) {
          of_ranks[static_cast<size_t>(rank)] = train_on(training, kEpochs);
          // conv.w is 8 x 9, fc.w 3 x 8; 8 + 3 biases and 16 of the batch norm.
          const auto floats = (8 + 9) + (3 + 8) + 8 + 3 + 16;
          EXPECT_EQ(training.sync().sent_bytes(),
                    training.sync().steps() * floats * static_cast<int64_t>(size_of(wire)));
        });
    EXPECT_EQ(of_ranks[0] == of_ranks[1], true);
    for (const std::string& other : models) EXPECT_EQ(other == of_ranks[0], false);
    models.push_back(of_ranks[0]);
  }
}

TEST(PowerSgd, AGradientThatIsNotFiniteIsLeftOutOnAllRanks) {
  on_ranks(2, [](Communicator& communicator, int rank) {
    One one(communicator, rank, 2, {.kind = OptimizerConfig::Kind::kSgd}, {.rank = 2});
    std::vector<float> gradient(One::kElements);
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 7);
    one.step(gradient);
    const std::vector<float> values = one.values();
    const auto left = one.sync().state().at("w.residual");
    std::vector<float> bad = gradient;
    if (rank == 1) bad[7] = std::numeric_limits<float>::quiet_NaN();
    one.step(bad);
    EXPECT_EQ(one.values(), values);
    EXPECT_TRUE(
        std::ranges::equal(one.sync().state().at("w.residual").as<float>(), left.as<float>()));
    EXPECT_EQ(one.sync().left_out(), 1);
    EXPECT_EQ(one.steps(), 1);
    one.step(gradient);
    EXPECT_NE(one.values(), values);
  });
}

// What all steps have applied, and what is left.
TEST(PowerSgd, WhatIsNotSentIsKept) {
  on_ranks(2, [](Communicator& communicator, int rank) {
    One one(communicator, rank, 2, {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
            {.rank = 2});
    std::vector<float> sum(One::kElements);
    for (int step = 0; step < 6; ++step) {
      Rng rng(static_cast<uint64_t>(10 * rank + step), "gradient");
      std::vector<float> gradient(One::kElements);
      for (float& x : gradient) x = static_cast<float>(rng.next_normal());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
      one.step(gradient);
    }
    const auto left = one.sync().state().at("w.residual");
    std::vector<float> of_both(sum.size()), left_of_both(sum.size());
    const auto added_up = [&](std::span<const float> own, std::vector<float>& to) {
      std::ranges::copy(own, to.begin());
      CommOp op{.kind = CommOp::Kind::kAllReduce, .group = {0, 1}, .name = "test"};
      op.data = to;
      const Communicator::Op begun = communicator.enqueue(std::move(op));
      communicator.release(begun);
      communicator.wait(begun);
    };
    added_up(sum, of_both);
    added_up(left.as<float>(), left_of_both);
    const std::vector<float> values = one.values();  // from 0, at rate 1
    for (size_t i = 0; i < sum.size(); ++i) {
      EXPECT_NEAR(left_of_both[i] - values[i], of_both[i], 1e-4);
    }
  });
}

TEST(PowerSgd, ThatCannotBeIsAnError) {
  for (const int rank : {0, 65}) {
    auto transports = memory_transports(1);
    const Model m = small_net(true, 0.3);
    EXPECT_THROW(
        SlowLinkTraining(m, weights_of(m), cpu(), config_of({}, 1), talk(std::move(transports[0])),
                         {}, by_power_sgd({.rank = rank}).make),
        Error);
  }
}

}  // namespace
}  // namespace ndtrain
