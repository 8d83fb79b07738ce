#include "framework/comm/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "framework/core/error.h"
#include "framework/core/rng.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using Actions = Membership::Actions;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

Membership::Member member(int rank, const std::string& model = "resnet18") {
  return {.rank = rank,
          .name = "host" + std::to_string(rank),
          .fingerprint = {{"program", "1"}, {"model", model}}};
}

std::vector<int> ranks_of(const Actions& actions) {
  std::vector<int> ranks;
  if (!actions.begin) return ranks;
  for (const auto& m : actions.begin->members) ranks.push_back(m.rank);
  return ranks;
}

bool nothing(const Actions& a) { return a.refuse.empty() && !a.begin && !a.fail; }

constexpr Membership::Rules kThree{.least = 2, .most = 3, .silence = 10s, .patience = 60s};

// Three ranks that run, from second 2 on.
Membership three() {
  Membership m(0s, kThree, member(0));
  m.hello(1s, member(2));
  m.hello(2s, member(1));
  return m;
}

TEST(Membership, TheGroupBeginsWhenAllAreThere) {
  Membership m(0s, kThree, member(0));
  EXPECT_TRUE(nothing(m.hello(1s, member(2))));
  EXPECT_EQ(m.generation(), 0u);
  const Actions a = m.hello(2s, member(1));
  EXPECT_THAT(ranks_of(a), ElementsAre(0, 1, 2));
  EXPECT_EQ(a.begin->number, 1u);
  EXPECT_EQ(a.begin->step, 0);
  EXPECT_THAT(a.refuse, IsEmpty());
}

TEST(Membership, OneAloneBeginsAtOnceOnlyWhereItIsAll) {
  Membership alone(0s, {.least = 1, .most = 1, .silence = 10s, .patience = 60s}, member(0));
  EXPECT_THAT(ranks_of(alone.tick(0s)), ElementsAre(0));
  Membership open(0s, {.least = 1, .most = 0, .silence = 10s, .patience = 60s}, member(0));
  EXPECT_TRUE(nothing(open.tick(59s)));
  EXPECT_EQ(open.next(), 60s);
  EXPECT_THAT(ranks_of(open.tick(60s)), ElementsAre(0));
  EXPECT_EQ(open.next(), Membership::Time::max());
}

TEST(Membership, AfterItsPatienceItBeginsWithEnoughOrFails) {
  Membership enough(0s, kThree, member(0)), few(0s, kThree, member(0));
  enough.hello(55s, member(1));
  EXPECT_THAT(ranks_of(enough.tick(60s)), ElementsAre(0, 1));
  const Actions a = few.tick(60s);
  ASSERT_TRUE(a.fail);
  EXPECT_EQ(*a.fail, "1 of at least 2 ranks are there");
  EXPECT_EQ(few.next(), Membership::Time::max());
  EXPECT_THAT(few.hello(61s, member(1)).refuse, ElementsAre(Pair(1, "the run has ended")));
  EXPECT_TRUE(nothing(few.tick(200s)));
}

TEST(Membership, WhoIsNotOfThisRunIsToldWhy) {
  Membership m(0s, kThree, member(0));
  EXPECT_THAT(m.hello(1s, member(1, "vgg16")).refuse,
              ElementsAre(Pair(1, "model is vgg16, not resnet18")));
  EXPECT_THAT(m.hello(1s, member(0)).refuse, ElementsAre(Pair(0, "rank 0 is there already")));
  EXPECT_THAT(m.hello(1s, member(-1)).refuse, ElementsAre(Pair(-1, "there is no rank -1")));
  m.hello(1s, member(1));
  EXPECT_THAT(m.hello(1s, member(1)).refuse, ElementsAre(Pair(1, "rank 1 is there already")));
  m.hello(1s, member(2));
  EXPECT_THAT(m.hello(1s, member(3)).refuse, ElementsAre(Pair(3, "there are 3 ranks already")));
}

TEST(Membership, TheOthersGoOnWithoutALostOneFromTheLastStepThatAnyHasApplied) {
  Membership m = three();
  EXPECT_TRUE(nothing(m.heard(3s, 0, 4)));
  EXPECT_TRUE(nothing(m.heard(3s, 1, 5)));
  EXPECT_TRUE(nothing(m.heard(3s, 2, 6)));
  const Actions a = m.lost(4s, 2, "hung up");
  EXPECT_THAT(ranks_of(a), ElementsAre(0, 1));
  EXPECT_EQ(a.begin->number, 2u);
  EXPECT_EQ(a.begin->step, 5);  // what only the lost one had is done again
  EXPECT_EQ(a.begin->source, 1);
  EXPECT_TRUE(nothing(m.lost(5s, 2, "hung up")));
}

TEST(Membership, ASilentOneIsLostAndMayComeBack) {
  Membership m = three();
  EXPECT_EQ(m.next(), 11s);
  m.heard(9s, 1, 1);
  EXPECT_TRUE(nothing(m.tick(10s)));
  EXPECT_THAT(ranks_of(m.tick(11s)), ElementsAre(0, 1));
  EXPECT_THAT(m.heard(12s, 2, 0).refuse, ElementsAre(Pair(2, "rank 2 is not in generation 2")));
  const Actions back = m.hello(13s, member(2));
  EXPECT_THAT(ranks_of(back), ElementsAre(0, 1, 2));
  EXPECT_EQ(back.begin->number, 3u);
}

TEST(Membership, TooFewWaitForOneToComeBack) {
  for (const bool comes : {false, true}) {
    Membership m = three();
    m.lost(3s, 1, "hung up");
    EXPECT_TRUE(nothing(m.lost(4s, 2, "hung up")));
    EXPECT_EQ(m.next(), 64s);
    if (comes) {
      EXPECT_THAT(ranks_of(m.hello(63s, member(1))), ElementsAre(0, 1));
      continue;
    }
    EXPECT_TRUE(nothing(m.tick(63s)));
    const Actions a = m.tick(64s);
    ASSERT_TRUE(a.fail);
    EXPECT_EQ(*a.fail, "1 of at least 2 ranks are there; rank 2 (host2) is lost: hung up");
  }
}

TEST(Membership, TheLeaderIsNeverLostToItself) {
  Membership m = three();
  EXPECT_THROW(m.lost(3s, 0, "?"), Error);
  EXPECT_THAT(ranks_of(m.tick(500s)), IsEmpty());  // two silent ones, but it is still there
  EXPECT_TRUE(nothing(m.heard(501s, 0, 1)));
}

TEST(Membership, RefusesRulesThatCannotBe) {
  EXPECT_THROW(Membership(0s, {.least = 0}, member(0)), Error);
  EXPECT_THROW(Membership(0s, {.least = 3, .most = 2}, member(0)), Error);
  EXPECT_THROW(Membership(0s, {.silence = 0s}, member(0)), Error);
}

// Whatever happens in whichever order: generations rise by one, have enough members of one
// fingerprint, among them all that came and were not lost, and nothing follows a failure.
TEST(Membership, KeepsItsPromisesUnderAnyOrderOfEvents) {
  size_t generations = 0, failures = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed, "events");
    const Membership::Rules rules{.least = 1 + static_cast<int>(rng.next_below(3)),
                                  .most = rng.next_below(2) ? 5 : 0,
                                  .silence = 10s,
                                  .patience = 20s};
    Membership m(0s, rules, member(0));
    std::set<int> there = {0};
    std::map<int, Membership::Time> heard;
    Membership::Time now = 0s;
    uint32_t number = 0;
    bool failed = false;
    for (int event = 0; event < 60; ++event) {
      now += std::chrono::milliseconds(rng.next_below(4000));
      const int rank = 1 + static_cast<int>(rng.next_below(5));
      const auto kind = rng.next_below(4);
      Actions a;
      if (kind == 0) {
        const bool right = rng.next_below(5) > 0, was_there = there.contains(rank);
        const bool full = rules.most > 0 && std::ssize(there) == rules.most;
        a = m.hello(now, member(rank, right ? "resnet18" : "vgg16"));
        ASSERT_EQ(a.refuse.empty(), right && !was_there && !full && !failed) << "seed " << seed;
        if (a.refuse.empty()) {
          there.insert(rank);
          heard[rank] = now;
        }
      } else if (kind == 1) {
        a = m.heard(now, rank, event);
        ASSERT_EQ(a.refuse.empty(), there.contains(rank) && !failed) << "seed " << seed;
        heard[rank] = now;
      } else if (kind == 2) {
        a = m.lost(now, rank, "hung up");
        there.erase(rank);
      } else {
        a = m.tick(now);
        std::erase_if(there, [&](int r) { return r != 0 && now - heard[r] >= rules.silence; });
      }
      ASSERT_FALSE(failed && (a.begin || a.fail)) << "seed " << seed;
      ASSERT_FALSE(a.fail && std::ssize(there) >= rules.least) << "seed " << seed;
      failed = failed || a.fail;
      failures += a.fail.has_value();
      if (!a.begin) continue;
      ++generations;
      ASSERT_EQ(a.begin->number, ++number) << "seed " << seed;
      ASSERT_EQ(ranks_of(a), std::vector<int>(there.begin(), there.end())) << "seed " << seed;
      ASSERT_GE(std::ssize(there), rules.least);
      for (const auto& x : a.begin->members) ASSERT_LE(x.step, a.begin->step);
    }
  }
  EXPECT_GT(generations, 1000u);
  EXPECT_GT(failures, 10u);
}

}  // namespace
}  // namespace ndtrain::comm_tests
