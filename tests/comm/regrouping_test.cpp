// Who goes on, and from where, message by message; then by transports, with ranks that leave.
#include "framework/comm/regrouping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <latch>
#include <stop_token>

#include "tests/comm/rank_threads.h"

namespace ndtrain::comm_tests {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Message = Regrouping::Message;
using Kind = Message::Kind;

Message report(int64_t step, uint64_t misses = 0) { return {Kind::kReport, step, misses}; }

TEST(Regrouping, TheLeaderCallsAllAndTheStepIsTheLeast) {
  Regrouping leader(0, {0, 1, 2, 3}, {2}, 7);
  EXPECT_EQ(leader.begin().send.size(), 2u);
  EXPECT_FALSE(leader.heard(1, report(6, 0b100)).agreed);
  const auto actions = leader.heard(3, report(7));
  EXPECT_EQ(actions.agreed, (Regrouping::Agreement{{0, 1, 3}, 6}));
  ASSERT_EQ(actions.send.size(), 2u);
  EXPECT_EQ(actions.send[0].second, (Message{Kind::kVerdict, 6, 0b1011}));
}

TEST(Regrouping, WhoIsMissedIsToldSoAndWhatItSaysDoesNotCount) {
  Regrouping leader(0, {0, 1, 2}, {}, 4);
  leader.begin();
  const auto actions = leader.heard(1, report(4, 0b100));
  EXPECT_EQ(actions.agreed, (Regrouping::Agreement{{0, 1}, 4}));
  ASSERT_EQ(actions.send.size(), 2u);
  EXPECT_EQ(actions.send[1].first, 2);
  Regrouping given_up(2, {0, 1, 2}, {1}, 3);
  EXPECT_EQ(given_up.begin().send[0].second, report(3, 0b10));
  EXPECT_THAT(given_up.heard(0, actions.send[1].second).fail.value(), HasSubstr("given this rank"));
}

TEST(Regrouping, WhoMissesTheLeaderIsGivenUp) {
  Regrouping leader(0, {0, 1, 2}, {}, 4);
  leader.begin();
  EXPECT_FALSE(leader.heard(1, report(4, 0b001)).agreed);
  EXPECT_EQ(leader.heard(2, report(4)).agreed, (Regrouping::Agreement{{0, 2}, 4}));
}

TEST(Regrouping, ALossMeanwhileIsLeftOut) {
  Regrouping leader(0, {0, 1, 2, 3}, {3}, 4);
  leader.begin();
  EXPECT_FALSE(leader.heard(1, report(3)).agreed);
  EXPECT_EQ(leader.gone(2, "hung up").agreed, (Regrouping::Agreement{{0, 1}, 3}));
}

TEST(Regrouping, ALeaderThatIsLeftAloneGoesOnAlone) {
  Regrouping leader(0, {0, 1}, {1}, 4);
  EXPECT_EQ(leader.begin().agreed, (Regrouping::Agreement{{0}, 4}));
}

TEST(Regrouping, WithoutTheLeaderARankEnds) {
  Regrouping member(1, {0, 1, 2}, {0}, 4);
  EXPECT_THAT(member.begin().fail.value(), HasSubstr("rank 0, which leads, is lost"));
  Regrouping later(1, {0, 1, 2}, {2}, 4);
  later.begin();
  EXPECT_FALSE(later.gone(2, "hung up").fail);
  EXPECT_THAT(later.gone(0, "hung up").fail.value(), HasSubstr("hung up"));
}

TEST(Regrouping, OnlyTheLeadersVerdictCounts) {
  Regrouping member(1, {0, 1, 2}, {}, 4);
  member.begin();
  EXPECT_FALSE(member.heard(2, {Kind::kVerdict, 4, 0b110}).agreed);
  EXPECT_FALSE(member.heard(0, {Kind::kCall}).agreed);
  EXPECT_EQ(member.heard(0, {Kind::kVerdict, 4, 0b011}).agreed, (Regrouping::Agreement{{0, 1}, 4}));
}

TEST(Regrouping, RanksThatThereCannotBeAreErrors) {
  EXPECT_THROW(Regrouping(2, {0, 1}, {}, 0), Error);
  EXPECT_THROW(Regrouping(0, {0, 64}, {}, 0), Error);
  EXPECT_THROW(Regrouping(0, {1, 0}, {}, 0), Error);
  EXPECT_THROW(Regrouping(0, {0, 1}, {0}, 0), Error);
}

// All that have the interface, but what MPI has: there all end together.
class RegroupingOver : public ::testing::TestWithParam<TransportKind> {};

TEST_P(RegroupingOver, ThoseThatAreLeftAgreeAndGoOn) {
  std::latch all_here(4);  // or one that is fast leaves while another is in the first barrier
  run_ranks(GetParam().make(4), {.regroups = true}, [&](Communicator& comm) {
    const auto barrier = [&] {
      carry_out(comm, {.kind = CommOp::Kind::kBarrier, .group = comm.members(), .name = "barrier"});
    };
    barrier();
    all_here.arrive_and_wait();
    for (int lost = 3; lost > 0; --lost) {
      if (comm.rank() == lost) return;
      EXPECT_THROW(
          {
            for (;;) barrier();
          },
          RankLost);
      const Regrouping::Agreement agreed = comm.regroup(10 + comm.rank());
      EXPECT_EQ(agreed, (Regrouping::Agreement{first_ranks(lost), 10}));
      EXPECT_EQ(comm.members(), agreed.members);
    }
  });
}

// Rank 2 waits for rank 0 alone, which has noticed that rank 3 is lost.
TEST_P(RegroupingOver, WhoHasNoticedNothingIsCalled) {
  std::latch all_here(4);
  run_ranks(GetParam().make(4), {.regroups = true}, [&](Communicator& comm) {
    carry_out(comm, {.kind = CommOp::Kind::kBarrier, .group = comm.members(), .name = "begin"});
    all_here.arrive_and_wait();
    if (comm.rank() == 3) return;
    std::vector<float> values(4);
    CommOp op{.kind = CommOp::Kind::kBarrier, .group = comm.members(), .name = "wait"};
    if (comm.rank() == 2) {
      op = {.kind = CommOp::Kind::kBroadcast, .group = {0, 2}, .name = "wait", .data = values};
    }
    EXPECT_THROW(carry_out(comm, std::move(op)), RankLost);
    EXPECT_EQ(comm.regroup(5), (Regrouping::Agreement{{0, 1, 2}, 5}));
    carry_out(comm, {.kind = CommOp::Kind::kBarrier, .group = comm.members(), .name = "end"});
  });
}

TEST_P(RegroupingOver, TheLossOfTheLeaderEndsTheOthers) {
  run_ranks(GetParam().make(3), {.regroups = true}, [](Communicator& comm) {
    if (comm.rank() == 0) return;
    EXPECT_THROW(
        carry_out(comm, {.kind = CommOp::Kind::kBarrier, .group = {0, 1, 2}, .name = "AR 1"}),
        RankLost);
    try {
      comm.regroup(5);
      ADD_FAILURE() << "nobody was missed";
    } catch (const RankLost& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 0"), HasSubstr("is lost")));
      EXPECT_THAT(e.ranks, ElementsAre(0));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, RegroupingOver, ::testing::ValuesIn([] {
                           auto kinds = transport_kinds();
                           std::erase_if(kinds, [](const TransportKind& k) {
                             return k.name.ends_with("Plugin");
                           });
                           return kinds;
                         }()),
                         [](const auto& kind) { return kind.param.name; });

TEST(Communicator, RegroupsOnlyWhereItIsToAndARankIsLost) {
  run_ranks(memory_transports(1), {},
            [](Communicator& comm) { EXPECT_THROW(comm.regroup(0), Error); });
  run_ranks(memory_transports(1), {.regroups = true}, [](Communicator& comm) {
    EXPECT_THROW(comm.regroup(0), Error);
    EXPECT_THAT(comm.members(), ElementsAre(0));
  });
}

// The leader has heard the report, and says nothing more.
TEST(Communicator, AskedToStopItWaitsForNoAgreement) {
  using std::chrono_literals::operator""h;
  auto transports = memory_transports(3);
  std::stop_source stop;
  Communicator comm(std::move(transports[1]),
                    {.stall = 1h, .regroups = true, .stop = stop.get_token()});
  transports[2].reset();
  EXPECT_THROW(
      carry_out(comm, {.kind = CommOp::Kind::kBarrier, .group = {0, 1, 2}, .name = "AR 1"}),
      RankLost);
  auto agreed = std::async(std::launch::async, [&] { return comm.regroup(5); });
  std::array<std::byte, 3 * sizeof(uint64_t)> heard{};
  transports[0]->begin_generation(1, first_ranks(3));
  transports[0]->receive(1, 0, heard);
  std::vector<Transport::Done> done;
  while (done.empty()) transports[0]->poll(done, 1h);
  stop.request_stop();
  try {
    agreed.get();
    ADD_FAILURE() << "the leader has agreed";
  } catch (const RankLost& e) {
    EXPECT_TRUE(e.stalled) << e.what();
  }
}

}  // namespace
}  // namespace ndtrain::comm_tests
