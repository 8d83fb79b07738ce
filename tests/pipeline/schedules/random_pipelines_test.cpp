#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "framework/pipeline/schedules/simulate_pipeline.h"

namespace ndtrain {
namespace {

struct RandomPipeline {
  std::string_view schedule;
  PipeShape shape;
  PipelineCosts costs;
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed, "pipelines") {}
  int64_t from_to(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(rng_.next_below(static_cast<uint64_t>(most - least + 1)));
  }
  bool one_in(int64_t n) { return from_to(1, n) == 1; }
  double seconds() { return one_in(4) ? 0 : std::pow(10, 3 * rng_.next_uniform() - 2); }
  std::vector<bool> flags(int n) {
    std::vector<bool> flags(static_cast<size_t>(n));
    for (auto&& f : flags) f = one_in(2);
    return flags;
  }

 private:
  Rng rng_;
};

// A chain, and edges past stages; the first stages may be frozen.
void add_edges(PipeShape& shape, Dice& dice) {
  if (dice.one_in(2)) return;
  shape.edges = edges_of(shape);
  for (int64_t n = dice.from_to(0, shape.stages); n > 0 && shape.stages > 2; --n) {
    const auto from = static_cast<int>(dice.from_to(0, shape.stages - 3));
    const auto to = static_cast<int>(dice.from_to(from + 2, shape.stages - 1));
    const bool gradient = !dice.one_in(3);
    const StageEdge edge{from, to, gradient, !gradient || !dice.one_in(3)};
    const auto same = [&](const StageEdge& e) { return e.from == from && e.to == to; };
    if (std::ranges::none_of(shape.edges, same)) {
      shape.edges.insert(shape.edges.begin() + dice.from_to(0, std::ssize(shape.edges)), edge);
    }
  }
}

PipeShape random_shape(std::string_view schedule, Dice& dice) {
  // Few stages are as likely as many.
  const auto ranks = static_cast<int>(std::min<int64_t>(64, int64_t{1} << dice.from_to(0, 6)) -
                                      dice.from_to(0, 1));
  PipeShape shape{.stages = std::max(1, ranks)};
  if (schedule == "interleaved") {
    shape.chunks = static_cast<int>(dice.from_to(1, std::max(1, 64 / shape.stages)));
    shape.chunks = std::min(shape.chunks, 5);
    shape.stages *= shape.chunks;
  }
  shape.micro_batches = dice.from_to(1, shape.stages > 16 ? 6 : 12);
  shape.mini_batches = dice.from_to(1, 3);
  if (dice.one_in(2)) shape.recompute = dice.flags(shape.stages);
  if (dice.one_in(4)) {
    shape.forward_only.resize(static_cast<size_t>(shape.stages));
    std::fill_n(shape.forward_only.begin(), dice.from_to(0, shape.stages), true);
  }
  add_edges(shape, dice);
  return shape;
}

RandomPipeline random_pipeline(uint64_t seed) {
  Dice dice(seed);
  RandomPipeline r;
  const auto names = pipeline_schedules();
  r.schedule = names[static_cast<size_t>(dice.from_to(0, std::ssize(names) - 1))];
  r.shape = random_shape(r.schedule, dice);
  int left = 64 - r.shape.ranks();
  for (int rank = 0; rank < r.shape.ranks(); ++rank) {
    const auto more = static_cast<int>(dice.from_to(0, std::min(left, 3)));
    r.costs.replicas.push_back(1 + more);
    left -= more;
  }
  r.costs.rows = dice.from_to(4, 64);
  for (int s = 0; s < r.shape.stages; ++s) {
    r.costs.stages.push_back({dice.seconds(), dice.seconds(), dice.seconds(), dice.seconds(),
                              dice.seconds(), dice.seconds()});
  }
  for (size_t e = 0; e < edges_of(r.shape).size(); ++e) {
    r.costs.edges.push_back({dice.seconds(), dice.seconds(), dice.seconds(), dice.seconds()});
  }
  return r;
}

// What each stage does in a row: every micro-batch forward and back once, each on the version that
// the delay says, and one update a mini-batch.
void expect_each_micro_batch_once(const RandomPipeline& r, const PipelineSchedule& schedule,
                                  const PipelinePrediction::Row& row) {
  for (int stage = row.rank; stage < r.shape.stages; stage += r.shape.ranks()) {
    const int64_t delay = schedule.delay(r.shape, stage);
    int64_t forward = 0, input = 0, weight = 0, recomputed = 0, updates = 0;
    for (const PipelinePrediction::Span& s : row.spans) {
      const Instruction& i = s.instruction;
      if (i.stage != stage || i.op == PipeOp::kFlush) continue;
      const int64_t mini_batch = i.micro_batch / r.shape.micro_batches;
      if (i.op == PipeOp::kUpdate || i.op == PipeOp::kGradSync) {
        ASSERT_EQ(i.version, mini_batch);
      } else {
        const int64_t version =
            r.shape.trains(stage) ? std::max<int64_t>(0, mini_batch - delay) : 0;
        ASSERT_EQ(i.version, version) << describe(i);
      }
      const bool whole = i.op == PipeOp::kBackward;
      const auto expect_next = [](bool is_one, int64_t number, int64_t& next) {
        EXPECT_TRUE(!is_one || number == next) << number << " where " << next << " is next";
        if (is_one) ++next;
      };
      expect_next(i.op == PipeOp::kForward, i.micro_batch, forward);
      expect_next(i.op == PipeOp::kRecompute, i.micro_batch, recomputed);
      expect_next(whole || i.op == PipeOp::kBackwardInput, i.micro_batch, input);
      expect_next(whole || i.op == PipeOp::kBackwardWeight, i.micro_batch, weight);
      expect_next(i.op == PipeOp::kUpdate, i.version, updates);
    }
    const int64_t all = r.shape.all_micro_batches(), back = r.shape.trains(stage) ? all : 0;
    ASSERT_EQ(forward, all);
    ASSERT_EQ(input, back);
    ASSERT_EQ(weight, back);
    ASSERT_EQ(recomputed, r.shape.recomputes(stage) ? back : 0);
    ASSERT_EQ(updates, r.shape.trains(stage) ? r.shape.mini_batches : 0);
  }
}

void expect_memory_within_what_is_said(const RandomPipeline& r, const PipelineSchedule& schedule,
                                       const PipelinePrediction& p) {
  for (int s = 0; s < r.shape.stages; ++s) {
    const PipelinePrediction::Stage& stage = p.stages[static_cast<size_t>(s)];
    ASSERT_LE(stage.most_versions, schedule.delay(r.shape, s) + 1) << "stage " << s;
    if (!r.shape.trains(s)) continue;
    ASSERT_EQ(stage.most_in_flight, schedule.most_in_flight(r.shape, s)) << "stage " << s;
  }
}

TEST(RandomPipelines, EndWithinTheirMemoryAndDoEverythingOnce) {
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    const RandomPipeline r = random_pipeline(seed);
    const auto schedule = pipeline_schedule(r.schedule);
    SCOPED_TRACE(::testing::Message()
                 << "random_pipeline(" << seed << "): " << r.schedule << ", " << r.shape.stages
                 << " stages, " << r.shape.chunks << " a rank, " << r.shape.mini_batches << " x "
                 << r.shape.micro_batches << " micro-batches");
    PipelinePrediction p;
    ASSERT_NO_THROW(p = simulate_pipeline(*schedule, r.shape, r.costs));
    ASSERT_LE(p.rows.size(), 64U);
    for (const PipelinePrediction::Row& row : p.rows) {
      ASSERT_NO_FATAL_FAILURE(expect_each_micro_batch_once(r, *schedule, row));
      ASSERT_GE(row.waiting_s, -1e-9 * p.seconds);
    }
    ASSERT_NO_FATAL_FAILURE(expect_memory_within_what_is_said(r, *schedule, p));
  }
}

}  // namespace
}  // namespace ndtrain
