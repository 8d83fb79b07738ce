// The order in which operations begin, and what becomes of them when ranks are lost.
#include "framework/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <map>
#include <stop_token>

#include "framework/core/rng.h"
#include "tests/comm/rank_threads.h"
#include "tests/comm/tree_oracle.h"
#include "tests/graph/model_builder.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using Kind = CommOp::Kind;
using Values = std::vector<float>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

size_t as_size(int i) { return static_cast<size_t>(i); }

CommOp barrier(RankGroup group, const std::string& name = "barrier") {
  return {.kind = Kind::kBarrier, .group = std::move(group), .name = name};
}

// A plan over groups that overlap: what each rank has at the end is what one after the other gives.
TEST(Communicator, AnyOrderOfReleasesGivesWhatThePlanGives) {
  const std::vector<RankGroup> groups = {{0, 1, 2, 3}, {0, 2}, {1, 2, 3}, {0, 3}, {0, 1, 2, 3}};
  constexpr int kOps = 40;
  constexpr size_t kLength = 9;
  const auto group_of = [&](int op) { return groups[as_size(op) % groups.size()]; };
  Rng draw(7, "kinds");
  std::vector<Kind> kinds;
  for (int i = 0; i < kOps; ++i) {
    kinds.push_back(
        std::array{Kind::kAllReduce, Kind::kBroadcast, Kind::kBarrier}[draw.next_below(3)]);
  }
  // The oracle: each operation has its own values.
  std::vector<Leaves> start, expected;
  for (int i = 0; i < kOps; ++i) {
    start.push_back(random_leaves(4, kLength, 100 + static_cast<uint64_t>(i)));
    expected.push_back(start.back());
    Leaves of_group;
    for (const int r : group_of(i)) of_group.push_back(start.back()[as_size(r)]);
    for (const int r : group_of(i)) {
      Values& e = expected.back()[as_size(r)];
      if (kinds[as_size(i)] == Kind::kBroadcast) e = of_group.back();
      if (kinds[as_size(i)] == Kind::kAllReduce) {
        e = tree_sum(of_group, 0, static_cast<int>(of_group.size()));
      }
    }
  }
  for (const int in_flight : {1, 2, 7}) {
    std::vector<Leaves> values = start;
    run_ranks(memory_transports(4), {.in_flight = in_flight}, [&](Communicator& comm) {
      const int me = comm.rank();
      std::vector<Communicator::Op> ids;
      for (int i = 0; i < kOps; ++i) {
        const RankGroup group = group_of(i);
        if (std::ranges::count(group, me) == 0) continue;
        CommOp op{.kind = kinds[as_size(i)], .group = group, .name = "op " + std::to_string(i)};
        if (op.kind != Kind::kBarrier) op.data = values[as_size(i)][as_size(me)];
        op.root = group.back();
        ids.push_back(comm.enqueue(op));
      }
      for (const int64_t i : permutation(std::ssize(ids), Rng(11, static_cast<uint64_t>(me)))) {
        comm.release(ids[static_cast<size_t>(i)]);
      }
      for (const Communicator::Op id : ids) comm.wait(id);
    });
    EXPECT_EQ(values, expected) << in_flight << " in flight";
  }
}

CommOp message(int from, int to, std::span<float> values) {
  return {.kind = Kind::kMessage,
          .group = {std::min(from, to), std::max(from, to)},
          .name = "message",
          .data = values,
          .root = from};
}

Communicator::Op begin(Communicator& comm, CommOp op) {
  const Communicator::Op id = comm.enqueue(std::move(op));
  comm.release(id);
  return id;
}

TEST(Communicator, MessagesWaitForNoLineAndComeInTheOrderOfTheirDirection) {
  constexpr int kMessages = 20;
  run_ranks(memory_transports(2), {.in_flight = 1, .piece = 3}, [](Communicator& comm) {
    const int me = comm.rank(), other = 1 - me;
    const Communicator::Op last = comm.enqueue(barrier({0, 1}));  // holds up whatever has a line
    std::vector<Values> sent, received(kMessages);
    std::vector<Communicator::Op> sends;
    // Each says all before it hears anything.
    for (int i = 0; i < kMessages; ++i)
      sent.emplace_back(1 + i % 7, static_cast<float>(100 * me + i));
    for (Values& values : sent) sends.push_back(begin(comm, message(me, other, values)));
    for (int i = 0; i < kMessages; ++i) {
      received[as_size(i)].resize(as_size(1 + i % 7));
      comm.wait(begin(comm, message(other, me, received[as_size(i)])));
      EXPECT_EQ(received[as_size(i)],
                Values(as_size(1 + i % 7), static_cast<float>(100 * other + i)));
    }
    for (const Communicator::Op op : sends) comm.wait(op);
    EXPECT_FALSE(comm.done(last));
    comm.release(last);
    comm.wait(last);
  });
}

TEST(Communicator, SaysWhenAnOperationWasDone) {
  run_ranks(memory_transports(2), {}, [](Communicator& comm) {
    const std::chrono::nanoseconds before = system_clock().monotonic();
    std::chrono::nanoseconds ended{};
    Values values(3);
    CommOp op = message(0, 1, values);
    op.ended = &ended;
    comm.wait(begin(comm, op));
    EXPECT_GE(ended, before);
    EXPECT_LE(ended, system_clock().monotonic());
    comm.wait(begin(comm, barrier({0, 1})));
  });
}

TEST(Communicator, LanesOfMessagesKeepTheirOrderEachForItself) {
  run_ranks(memory_transports(2), {}, [](Communicator& comm) {
    const bool sends = comm.rank() == 0;
    std::vector<Values> values(4, Values(1));
    std::vector<Communicator::Op> ops;
    for (const int i : {0, 1, 2, 3}) {
      const int at = sends ? i : 3 - i;  // lanes 0 1 0 1, and from there 1 0 1 0
      if (sends) values[as_size(at)][0] = static_cast<float>(at);
      CommOp op = message(0, 1, values[as_size(at)]);
      op.lane = at % 2;
      ops.push_back(begin(comm, op));
    }
    for (const Communicator::Op op : ops) comm.wait(op);
    if (!sends) {
      EXPECT_EQ(values, (std::vector<Values>{{2}, {3}, {0}, {1}}));
    }
  });
}

TEST(Communicator, AMessageIsBetweenTwoRanks) {
  run_ranks(memory_transports(2), {}, [](Communicator& comm) {
    Values values(3);
    CommOp op = message(0, 1, values);
    op.group = {0, 1, 2};
    EXPECT_THAT(testing::error_of([&] { comm.enqueue(op); }),
                HasSubstr("between two ranks, not 3"));
    op = message(0, 1, values);
    op.lane = CommOp::kLanes;
    EXPECT_THAT(testing::error_of([&] { comm.enqueue(op); }), HasSubstr("lane 1024"));
  });
}

std::vector<std::string> names(const std::vector<Communicator::Span>& trace) {
  std::vector<std::string> all;
  for (const auto& span : trace) all.push_back(span.name);
  return all;
}

TEST(Communicator, WhatIsNotReleasedHoldsUpWhatIsBehindIt) {
  run_ranks(memory_transports(2), {.trace = true}, [](Communicator& comm) {
    const auto first = comm.enqueue(barrier({0, 1}, "first"));
    const auto second = comm.enqueue(barrier({0, 1}, "second"));
    comm.release(second);
    comm.release(first);
    comm.wait(second);
    comm.wait(first);
    std::map<std::string, Communicator::Span> trace;
    for (const auto& span : comm.take_trace()) trace[span.name] = span;
    EXPECT_LE(trace["second"].released, trace["first"].released);
    EXPECT_GE(trace["second"].begun, trace["first"].released);
    EXPECT_GE(trace["second"].begun, trace["first"].begun);
    EXPECT_GE(trace["first"].ended, trace["first"].begun);
    EXPECT_TRUE(comm.take_trace().empty());
  });
}

TEST(Communicator, OneInFlightIsOneAfterTheOther) {
  run_ranks(memory_transports(3), {.in_flight = 1, .trace = true}, [](Communicator& comm) {
    std::vector<Communicator::Op> ids;
    for (int i = 0; i < 5; ++i) ids.push_back(comm.enqueue(barrier({0, 1, 2}, std::to_string(i))));
    for (const auto id : ids) comm.release(id);
    for (const auto id : ids) comm.wait(id);
    const auto trace = comm.take_trace();
    EXPECT_THAT(names(trace), ElementsAre("0", "1", "2", "3", "4"));
    for (size_t i = 1; i < trace.size(); ++i) EXPECT_GE(trace[i].begun, trace[i - 1].ended);
  });
}

TEST(Communicator, WhatIsEnqueuedTogetherBeginsTogether) {
  run_ranks(memory_transports(2), {.in_flight = 1, .trace = true}, [](Communicator& comm) {
    Values a(10, 1.0f), b(10, 2.0f);
    const auto ids = comm.enqueue_together(
        {{.kind = Kind::kReduceScatter, .group = {0, 1}, .name = "RS", .data = a},
         {.kind = Kind::kAllGather, .group = {0, 1}, .name = "AG", .data = b}});
    ASSERT_EQ(ids.size(), 2u);
    comm.release(ids[1]);
    comm.release(ids[0]);
    for (const auto id : ids) comm.wait(id);
    EXPECT_TRUE(comm.done(ids[0]) && comm.done(ids[1]));
    const auto trace = comm.take_trace();
    ASSERT_EQ(trace.size(), 2u);
    EXPECT_GE(std::min(trace[0].begun, trace[1].begun),
              std::max(trace[0].released, trace[1].released));
    EXPECT_EQ(a[as_size(comm.rank()) * 5], 2.0f);
  });
}

TEST(Communicator, WhoNeverComesIsNamed) {
  auto transports = memory_transports(3);
  const auto silent = std::move(transports[1]);
  transports.erase(transports.begin() + 1);
  std::latch both_here(2), both_know(2);
  run_ranks(std::move(transports), {.stall = 700ms}, [&](Communicator& comm) {
    both_here.arrive_and_wait();
    const auto alone = comm.enqueue(barrier({0, 2}, "without it"));
    const auto all = comm.enqueue(barrier({0, 1, 2}, "AG 4"));
    const auto behind = comm.enqueue(barrier({0, 2}, "behind"));
    for (const auto id : {alone, all, behind}) comm.release(id);
    comm.wait(alone);
    try {
      comm.wait(all);
      ADD_FAILURE() << "nobody was missed";
    } catch (const RankLost& e) {
      EXPECT_THAT(e.ranks, ElementsAre(1));
      EXPECT_THAT(e.what(), HasSubstr("'AG 4' lacks rank 1 since "));
      EXPECT_THAT(e.what(), HasSubstr("UTC"));
    }
    EXPECT_FALSE(comm.done(all));
    EXPECT_THROW(comm.wait(all), RankLost);
    EXPECT_NO_THROW(comm.wait(alone));
    both_know.arrive_and_wait();  // who leaves would be missed, too
  });
}

TEST(Communicator, WhoLeavesIsNamedAndTheOthersGoOnWithoutIt) {
  run_ranks(memory_transports(3), {}, [](Communicator& comm) {
    if (comm.rank() == 2) return;
    Values lost(6, 1.0f), kept(6, 1.0f);
    const auto op =
        comm.enqueue({.kind = Kind::kAllReduce, .group = {0, 1, 2}, .name = "AR 0", .data = lost});
    comm.release(op);
    try {
      comm.wait(op);
      ADD_FAILURE() << "nobody was missed";
    } catch (const RankLost& e) {
      EXPECT_THAT(e.ranks, ElementsAre(2));
      EXPECT_THAT(e.what(), HasSubstr("'AR 0' lacks rank 2"));
    }
    const auto after = comm.enqueue(barrier({0, 1}));  // too late for this generation
    comm.release(after);
    EXPECT_THROW(comm.wait(after), RankLost);

    comm.begin_generation(1, {0, 1});
    EXPECT_THROW(comm.wait(op), Error);
    EXPECT_FALSE(comm.done(op));
    EXPECT_THROW(comm.enqueue(barrier({0, 1, 2})), Error);
    carry_out(comm, {.kind = Kind::kAllReduce, .group = {0, 1}, .name = "AR 0", .data = kept});
    EXPECT_EQ(kept, Values(6, 2.0f));
    carry_out(comm, barrier({0, 1}));
  });
}

// The others are there and say nothing, as processes that are stopped.
TEST(Communicator, AskedToStopItEndsTheWaitOfAnotherThreadForGood) {
  auto transports = memory_transports(2);
  std::stop_source stop;
  Communicator comm(std::move(transports[0]),
                    {.stall = 1h, .regroups = true, .stop = stop.get_token()});
  const auto op = comm.enqueue(barrier({0, 1}));
  comm.release(op);
  auto ended = std::async(std::launch::async, [&] { comm.wait(op); });
  stop.request_stop();
  try {
    ended.get();
    ADD_FAILURE() << "nobody was missed";
  } catch (const RankLost& e) {
    EXPECT_TRUE(e.stalled);
    EXPECT_THAT(e.ranks, ElementsAre(0));
  }
  const auto after = comm.enqueue(barrier({0, 1}));
  comm.release(after);
  EXPECT_THROW(comm.wait(after), RankLost);
  EXPECT_THROW(comm.regroup(0), RankLost);
  EXPECT_THROW(comm.begin_generation(1, {0, 1}), RankLost);
  EXPECT_THROW(comm.wait(after), RankLost);
}

TEST(Communicator, AskedBeforeItBeginsItTakesPartInNothing) {
  auto transports = memory_transports(1);
  std::stop_source stop;
  stop.request_stop();
  Communicator comm(std::move(transports[0]), {.stop = stop.get_token()});
  const auto op = comm.enqueue(barrier({0}));
  comm.release(op);
  EXPECT_THROW(comm.wait(op), RankLost);
}

TEST(Communicator, AGenerationThatCannotBeginChangesNothing) {
  run_ranks(2, [](Communicator& comm) {
    const auto op = comm.enqueue(barrier({0, 1}));
    EXPECT_THROW(comm.begin_generation(0, {0, 1}), Error);
    EXPECT_THROW(comm.begin_generation(1, {1 - comm.rank()}), Error);
    comm.release(op);
    comm.wait(op);
  });
}

// Another plan on another rank is not taken for this one.
TEST(Communicator, PlansThatDifferStall) {
  run_ranks(memory_transports(2), {.stall = 50ms}, [](Communicator& comm) {
    Values x(8);
    const Kind kind = comm.rank() == 0 ? Kind::kAllGather : Kind::kAllReduce;
    const auto op = comm.enqueue({.kind = kind, .group = {0, 1}, .name = "op", .data = x});
    comm.release(op);
    EXPECT_THROW(comm.wait(op), RankLost);
  });
}

TEST(Communicator, RefusesWhatNobodyEnqueuedAndASecondRelease) {
  run_ranks(1, [](Communicator& comm) {
    EXPECT_THROW(comm.wait(1), Error);
    EXPECT_THROW(comm.release(0), Error);
    EXPECT_THROW(comm.done(1), Error);
    const auto op = comm.enqueue(barrier({0}));
    comm.release(op);
    comm.wait(op);
    EXPECT_THROW(comm.release(op), Error);
  });
  EXPECT_THROW(Communicator(std::move(memory_transports(1)[0]), {.in_flight = 0}), Error);
  EXPECT_THROW(Communicator(std::move(memory_transports(1)[0]), {.stall = 0ms}), Error);
}

TEST(Communicator, ItsEndLeavesTheMemoryOfWhatIsNotDoneFree) {
  auto transports = memory_transports(2);
  Values x(8, 1.0f), y(4);
  {
    Communicator comm(std::move(transports[0]), {});
    const auto op =
        comm.enqueue({.kind = Kind::kAllReduce, .group = {0, 1}, .name = "AR", .data = x});
    comm.release(op);
  }
  x.assign(8, 7.0f);
  const uint64_t tag = static_cast<uint64_t>(Kind::kAllReduce) << 1;  // of the first operation
  transports[1]->receive(0, tag, std::as_writable_bytes(std::span(y)));
  EXPECT_EQ(y, Values(4, 0.0f));
}

}  // namespace
}  // namespace ndtrain::comm_tests
