#include "framework/comm/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "framework/comm/rank_hello.h"
#include "framework/core/error.h"
#include "framework/testing/memory_net.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Met = Result<std::vector<std::unique_ptr<Stream>>>;

const Fingerprint kRun = {{"program", "1"}, {"model", "resnet18"}, {"flags", "--sync dear"}};

RankPlace place(int rank, int ranks) {
  return {.rank = rank,
          .ranks = ranks,
          .fingerprint = kRun,
          .rendezvous = "tuner:1",
          .listen = "rank" + std::to_string(rank) + ":0",
          .patience = 10s};
}

// Each place meets in a thread of its own; what came of it, in their order.
std::vector<Met> meet(Net& net, const std::vector<RankPlace>& places) {
  std::vector<Met> met;
  for (size_t i = 0; i < places.size(); ++i) met.emplace_back(Status(Code::kNotFound, "to come"));
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < places.size(); ++i) {
    threads.emplace_back([&, i] { met[i] = meet_ranks(net, places[i]); });
  }
  threads.clear();
  return met;
}

void expect_pairs(std::vector<Met>& met) {
  for (size_t a = 0; a < met.size(); ++a) {
    ASSERT_TRUE(met[a].ok()) << met[a].status().message();
    ASSERT_EQ(met[a]->size(), met.size());
    EXPECT_EQ((*met[a])[a], nullptr);
    for (size_t b = 0; b < a; ++b) {
      const std::byte sent[] = {std::byte(10 * a + b)};
      std::byte got[1] = {};
      (*met[a])[b]->write(sent).or_throw();
      EXPECT_EQ((*met[b])[a]->read(got, 10s).or_throw(), 1u);
      EXPECT_EQ(got[0], sent[0]);
    }
  }
}

TEST(Rendezvous, EachRankHasAStreamToEachOther) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    MemoryNet net;
    std::vector<RankPlace> places;
    for (int r = 0; r < ranks; ++r) places.push_back(place(r, ranks));
    auto met = meet(net, places);
    expect_pairs(met);
    EXPECT_EQ(net.connections() > 0, ranks > 1);
  }
}

TEST(Rendezvous, RanksThatListenAnywhereAreReachedWhereTheyCameFrom) {
  const std::string address = real_net().listen("127.0.0.1:0").or_throw()->address();
  std::vector<RankPlace> places;
  for (int r = 0; r < 3; ++r) {
    places.push_back(place(r, 3));
    places.back().rendezvous = address;
    places.back().listen = r == 1 ? "0.0.0.0:0" : ":0";
  }
  auto met = meet(real_net(), places);
  expect_pairs(met);
}

// Rank 0 refuses one that is wrong, and goes on with the right one that comes after it.
void expect_refused(const RankPlace& wrong, const std::string& why) {
  MemoryNet net;
  const auto listener = net.listen("tuner:1").or_throw();
  Met first = Status(Code::kNotFound, ""), right = first.status(), zero = first.status();
  {
    std::jthread host([&] { zero = receive_ranks(*listener, place(0, 2)); });
    first = meet_ranks(net, wrong);
    right = meet_ranks(net, place(1, 2));
  }
  EXPECT_EQ(first.status().code(), Code::kUnsupported) << why;
  EXPECT_THAT(first.status().message(), HasSubstr(why));
  EXPECT_TRUE(right.ok()) << right.status().message();
  EXPECT_TRUE(zero.ok()) << zero.status().message();
}

TEST(Rendezvous, WhoIsNoRankOfThisRunIsToldTheFirstDifference) {
  RankPlace wrong = place(1, 2);
  wrong.fingerprint[1].second = "vgg16";
  wrong.fingerprint[2].second = "--sync wfbp";
  expect_refused(wrong, "model is vgg16, not resnet18");
  wrong.fingerprint = kRun;
  wrong.fingerprint.pop_back();
  expect_refused(wrong, "flags is not said");
  wrong.fingerprint = {{"program", "1"}, {"data", "x"}};
  expect_refused(wrong, "data is said in place of model");
  wrong.fingerprint = kRun;
  wrong.fingerprint.push_back({"shards", "\n"});
  expect_refused(wrong, "shards is said, which is not known here");
  expect_refused(place(1, 3), "the number of ranks is 3, not 2");
  wrong = place(1, 2);
  wrong.generation = 4;
  expect_refused(wrong, "the generation is 4, not 0");
}

TEST(Rendezvous, ARankComesOnce) {
  MemoryNet net;
  const auto listener = net.listen("tuner:1").or_throw();
  Met zero = Status(Code::kNotFound, ""), first = zero.status();
  std::jthread host([&] { zero = receive_ranks(*listener, place(0, 3)); });
  std::jthread right([&] { first = meet_ranks(net, place(1, 3)); });
  while (net.connections() == 0) std::this_thread::yield();  // it has dialled
  const Met second = meet_ranks(net, place(1, 3));
  EXPECT_EQ(second.status().code(), Code::kUnsupported);
  EXPECT_THAT(second.status().message(), HasSubstr("rank 1 is there already"));
  EXPECT_TRUE(meet_ranks(net, place(2, 3)).ok());
  host.join();
  right.join();
  EXPECT_TRUE(zero.ok()) << zero.status().message();
  EXPECT_TRUE(first.ok()) << first.status().message();
}

TEST(Rendezvous, WhoIsMissingIsNamedWithWhoWasRefused) {
  MemoryNet net;
  const auto listener = net.listen("tuner:1").or_throw();
  RankPlace zero = place(0, 3), wrong = place(1, 3);
  zero.patience = 500ms;
  wrong.fingerprint[1].second = "vgg16";
  std::jthread refused([&] { EXPECT_FALSE(meet_ranks(net, wrong).ok()); });
  while (net.connections() == 0) std::this_thread::yield();  // it has dialled
  const Met met = receive_ranks(*listener, zero);
  EXPECT_EQ(met.status().code(), Code::kCancelled);
  EXPECT_THAT(met.status().message(), HasSubstr("rank 1, 2 has not come to tuner:1 in time"));
  EXPECT_THAT(met.status().message(), HasSubstr("was refused: model is vgg16, not resnet18"));
}

TEST(Rendezvous, RankZeroMayComeLateButNotNever) {
  MemoryNet net;
  Met one = Status(Code::kNotFound, "");
  {
    std::jthread early([&] { one = meet_ranks(net, place(1, 2)); });
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(meet_ranks(net, place(0, 2)).ok());
  }
  EXPECT_TRUE(one.ok()) << one.status().message();
  RankPlace alone = place(1, 2);
  alone.patience = 30ms;
  const Met nobody = meet_ranks(net, alone);
  EXPECT_EQ(nobody.status().code(), Code::kCancelled);
  EXPECT_THAT(nobody.status().message(), HasSubstr("tuner:1"));
}

TEST(Rendezvous, AStrangerDoesNotDisturb) {
  MemoryNet net;
  const auto listener = net.listen("tuner:1").or_throw();
  const auto stranger = net.dial("tuner:1").or_throw();
  stranger
      ->write(
          std::as_bytes(std::span("GET / HTTP/1.1\r\nHost: tuner\r\nAccept: everything\r\n\r\n")))
      .or_throw();
  const auto gone = net.dial("tuner:1").or_throw();
  gone->close();
  const auto liar = net.dial("tuner:1").or_throw();
  write_frame(*liar, FrameHeader::Kind::kHello, std::as_bytes(std::span("{\"rank\":[]}", 11)))
      .or_throw();
  Met zero = Status(Code::kNotFound, "");
  {
    std::jthread host([&] { zero = receive_ranks(*listener, place(0, 2)); });
    EXPECT_TRUE(meet_ranks(net, place(1, 2)).ok());
  }
  EXPECT_TRUE(zero.ok()) << zero.status().message();
}

TEST(Rendezvous, RefusesARankThatCannotBe) {
  MemoryNet net;
  EXPECT_THROW(static_cast<void>(meet_ranks(net, place(2, 2)).ok()), Error);
  EXPECT_THROW(static_cast<void>(meet_ranks(net, place(-1, 2)).ok()), Error);
  EXPECT_THROW(static_cast<void>(meet_ranks(net, place(0, 0)).ok()), Error);
  EXPECT_EQ(meet_ranks(net, place(0, 1)).or_throw().size(), 1u);
}

}  // namespace
}  // namespace ndtrain::comm_tests
