// Ranks of a job of which one is asked to stop, at any moment.
#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <memory>
#include <thread>

#include "framework/comm/memory_transport.h"
#include "tests/jobs/finetune_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;

// Interrupted from the question of this number on.
class StopsAt final : public Progress {
 public:
  explicit StopsAt(int64_t question) : left_(question) {}
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string&) override {}
  bool interrupted() const override { return left_.fetch_sub(1) <= 0; }

 private:
  mutable std::atomic<int64_t> left_;
};

class RanksStop : public FinetuneTest {
 protected:
  static constexpr int kRanks = 2;

  // Whether they were interrupted, of which this one is asked to stop; they say the same.
  bool interrupted(FinetuneConfig config, int rank, int64_t question) {
    config.how.trainer.shards = kRanks;
    auto transports = memory_transports(kRanks);
    FinetuneResult results[kRanks];
    std::exception_ptr failed[kRanks];
    {
      std::vector<std::jthread> threads;
      for (int r = 0; r < kRanks; ++r) {
        threads.emplace_back([&, r] {
          try {
            FinetuneConfig own = config;
            own.out = at("run" + std::to_string(r));
            if (!own.how.ranks.one_cache) own.cache = at("cache/" + std::to_string(r));
            StopsAt progress(r == rank ? question : INT64_MAX);
            results[r] = finetune(
                own, device_, real_fs(), system_clock(), progress,
                std::make_unique<Communicator>(std::move(transports[r]), Communicator::Options{}));
          } catch (...) {
            failed[r] = std::current_exception();
          }
        });
      }
    }
    for (int r = 0; r < kRanks; ++r) {
      std::filesystem::remove_all(at("run" + std::to_string(r)));
      if (failed[r]) std::rethrow_exception(failed[r]);
    }
    EXPECT_EQ(results[0].interrupted, results[1].interrupted) << "question " << question;
    return results[0].interrupted;
  }

  // From the first question on, until nobody is left who asks.
  void stop_everywhere(const FinetuneConfig& config) {
    for (int rank = 0; rank < kRanks; ++rank) {
      int64_t question = 0;
      while (interrupted(config, rank, question)) {
        std::filesystem::remove_all(at("cache"));
        ++question;
      }
      EXPECT_GT(question, 5);
    }
  }
};

TEST_F(RanksStop, AllOfThemWhereverOneIsAsked) { stop_everywhere(config("")); }

TEST_F(RanksStop, AllOfThemThatHaveOneCache) {
  FinetuneConfig c = config("");
  c.how.ranks.one_cache = true;
  stop_everywhere(c);
}

TEST_F(RanksStop, AllOfThemBeforeTheyAreStages) {
  FinetuneConfig c = config("");
  c.how.stages = StageConfig{};
  c.how.stages_from = 1;
  stop_everywhere(c);
}

}  // namespace
}  // namespace ndtrain::ndp
