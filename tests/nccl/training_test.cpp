// Trainings by ranks whose gradients stay on their GPUs, on the fakes.
#include <gmock/gmock.h>

#include "framework/runtime/stream_mark.h"
#include "tests/nccl/nccl_ranks.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain::nccl_tests {
namespace {

using testing::alone;
using testing::Bytes;
using testing::config_of;
using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;

const OptimizerConfig kSgd = {.kind = OptimizerConfig::Kind::kSgd};

class NcclTraining : public OnNcclFakes {
 protected:
  static const Backend& cuda() { return Backend::find("cuda"); }

  static Bytes on_one_device(const TrainerConfig& config) {
    const Device device(cuda(), {.deterministic = true});
    const Model m = testing::small_net(true, 0.3);
    Trainer trainer(m, testing::weights_of(m), device, config);
    return testing::train(trainer);
  }

  // What each rank has after each epoch, or what it threw.
  static std::vector<Bytes> by_ranks(int ranks, const TrainerConfig& config,
                                     DataParallel::Options options, uint64_t late = 1) {
    auto transports = nccl_transports(ranks);
    fake::set_late(late);
    options.exchange.native = true;
    std::vector<Bytes> bytes(static_cast<size_t>(ranks));
    std::vector<std::jthread> threads;
    for (size_t r = 0; r < bytes.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          const Device device(cuda(), {.index = static_cast<int32_t>(r), .deterministic = true});
          const Model m = testing::small_net(true, 0.3);
          DataParallel training(m, testing::weights_of(m), device, config,
                                testing::talk(std::move(transports[r])), options);
          bytes[r] = testing::train(training);
          training.barrier();
        } catch (const Error& e) {
          bytes[r] = {e.what()};
        }
      });
    }
    threads.clear();
    return bytes;
  }
};

// Of two ranks the library adds up what the tree does: two summands.
TEST_F(NcclTraining, OfTwoRanksHasTheBytesOfOneDeviceWithTwoShards) {
  const TrainerConfig config = config_of({}, 2);
  const Bytes one = on_one_device(config);
  const std::vector<std::pair<std::string, DataParallel::MakePlan>> plans = {
      {"all at once", testing::all_reduce_at_once},
      {"pieces", testing::pieces_of_32},
      {"halves", [](const ParameterSpace& p) { return testing::halves(p, 1); }},
      {"grouped", testing::grouped},
      {"by rank 0", testing::by_rank_0}};
  for (const auto& [name, plan] : plans) {
    EXPECT_THAT(by_ranks(2, config, {.plan = plan}), Each(Eq(one))) << name;
  }
}

TEST_F(NcclTraining, WithClippedGradientsHasTheBytesOfOneDevice) {
  const TrainerConfig config = config_of({.clip_norm = 0.05}, 2);
  const Bytes one = on_one_device(config);
  EXPECT_NE(one, on_one_device(config_of({}, 2)));
  EXPECT_THAT(by_ranks(2, config, {.plan = testing::pieces_of_32}), Each(Eq(one)));
}

TEST_F(NcclTraining, WithAShardedOptimizerHasTheBytesOfOneDevice) {
  const TrainerConfig config = config_of({}, 2);
  EXPECT_THAT(by_ranks(2, config,
                       {.plan = [](const ParameterSpace& p) { return testing::halves(p, 0); },
                        .exchange = {.shard_optimizer = true}}),
              Each(Eq(on_one_device(config))));
}

TEST_F(NcclTraining, InPartsAndSeveralShardsOfARankHasTheBytesOfOneDevice) {
  TrainerConfig config = config_of(kSgd, 4);
  config.accumulate = 2;
  EXPECT_THAT(by_ranks(2, config, {.plan = testing::grouped}), Each(Eq(on_one_device(config))));
}

TEST_F(NcclTraining, DoesNotDependOnHowLateStreamsAre) {
  const TrainerConfig config = config_of({}, 3);
  const std::vector<Bytes> first = by_ranks(3, config, {.plan = testing::grouped}, 1);
  EXPECT_THAT(first, Each(Eq(first[0])));
  for (uint64_t seed = 2; seed <= 3; ++seed) {
    fake::reset_nccl();
    EXPECT_EQ(by_ranks(3, config, {.plan = testing::grouped}, seed), first) << "seed " << seed;
    EXPECT_EQ(fake::nccl_calls(0), fake::nccl_calls(1));
    EXPECT_EQ(fake::nccl_calls(0), fake::nccl_calls(2));
  }
}

TEST_F(NcclTraining, ShardsThatAreSeveralSumsAreRefused) {
  EXPECT_THAT(by_ranks(2, config_of({}, 5), {.plan = testing::grouped}),
              Each(Each(HasSubstr("give as many --shards as there are ranks"))));
}

TEST_F(NcclTraining, OrderedSumsAreRefused) {
  const Device device(cuda(), {.deterministic = true});
  const Model m = testing::small_net(true, 0.3);
  std::string why;
  try {
    DataParallel(m, testing::weights_of(m), device, config_of({}, 1),
                 testing::talk(std::move(memory_transports(1)[0])),
                 {.plan = testing::all_reduce_at_once});
  } catch (const Error& e) {
    why = e.what();
  }
  EXPECT_THAT(why, HasSubstr("--comm nccl --collectives native"));
}

TEST_F(NcclTraining, ADeviceWhoseMemoryIsTheHostsIsRefused) {
  auto transports = nccl_transports(1);
  const Model m = testing::small_net(true, 0.3);
  std::string why;
  try {
    DataParallel(m, testing::weights_of(m), testing::cpu(), config_of({}, 1),
                 testing::talk(std::move(transports[0])),
                 {.plan = testing::all_reduce_at_once, .exchange = {.native = true}});
  } catch (const Error& e) {
    why = e.what();
  }
  EXPECT_THAT(why, HasSubstr("backend cpu computes in memory of the host"));
}

// What is given to the stream behind the mark is not waited for.
TEST_F(NcclTraining, AMarkStaysWhereItWasSet) {
  fake::set_late(1);
  const Device device(cuda(), {.deterministic = true});
  ndt_stream* stream = nullptr;
  ASSERT_EQ(device.abi().stream_create(device.handle(), &stream), NDT_OK);
  const auto native = static_cast<cudaStream_t>(device.abi().native_stream(stream));
  bool first = false, second = false;
  {
    StreamMark mark(device);
    fake::enqueue(native, "first", [&] { first = true; });
    mark.set(stream);
    bool held = true;
    fake::enqueue_until(native, "second", [&] { return second = !held; });
    EXPECT_EQ(cudaStreamSynchronize(static_cast<cudaStream_t>(mark.native())), cudaSuccess);
    EXPECT_TRUE(first);
    EXPECT_FALSE(second);
    held = false;
  }
  EXPECT_EQ(device.abi().stream_wait(stream), NDT_OK);
  EXPECT_TRUE(second);
  device.abi().stream_destroy(stream);
}

}  // namespace
}  // namespace ndtrain::nccl_tests
