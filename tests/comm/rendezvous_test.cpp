#include "framework/comm/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <stop_token>
#include <thread>

#include "framework/comm/rank_hello.h"
#include "framework/comm/rank_relay.h"
#include "framework/core/error.h"
#include "framework/testing/memory_net.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
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

// Rank r of four is place(r, 4), but for what `change` does to it.
std::vector<Met> meet_with_relay(Net& net, std::unique_ptr<RankRelay>& relay, bool& is_to_relay,
                                 const std::function<void(int r, RankPlace& own)>& change) {
  std::vector<Met> met;
  for (int i = 0; i < 4; ++i) met.emplace_back(Status(Code::kNotFound, "to come"));
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    auto listener = net.listen("tuner:1").or_throw();
    RankArrivals arrivals;
    met[0] = receive_ranks(*listener, place(0, 4), system_clock(), &arrivals);
    is_to_relay = arrivals.is_to_relay;
    relay = std::make_unique<RankRelay>(std::move(listener), place(0, 4));
  });
  for (int r = 1; r < 4; ++r) {
    threads.emplace_back([&, r] {
      RankPlace own = place(r, 4);
      change(r, own);
      met[static_cast<size_t>(r)] = meet_ranks(net, own);
    });
  }
  threads.clear();
  return met;
}

// Of four ranks those that do not listen are reached by rank 0, as long as it passes on.
TEST(Rendezvous, RanksThatDoNotListenAreReachedByRankZero) {
  for (const std::vector<int>& silent :
       {std::vector{1}, std::vector{2}, std::vector{3}, std::vector{1, 3}, std::vector{1, 2, 3}}) {
    MemoryNet net;
    std::unique_ptr<RankRelay> relay;
    bool is_to_relay = false;
    std::vector<Met> met = meet_with_relay(net, relay, is_to_relay, [&](int r, RankPlace& own) {
      if (std::ranges::count(silent, r) == 0) return;
      own.listen = "";
      own.relay = true;
    });
    EXPECT_EQ(is_to_relay, silent != std::vector{3});
    expect_pairs(met);
    EXPECT_EQ(relay->passed_on() > 0, is_to_relay);
    relay.reset();
    if (silent.front() != 1) continue;
    std::byte got[1];
    const Result<size_t> end = (*met[3])[1]->read(got, 10s);
    EXPECT_TRUE(!end.ok() || *end == 0) << "by the relay, which is gone";
  }
}

// They are near each other, whoever else cannot dial them.
TEST(Rendezvous, RanksOfASiteReachEachOtherWithoutTheRelay) {
  const auto passed_on = [](const std::vector<std::string>& sites) {
    MemoryNet net;
    std::unique_ptr<RankRelay> relay;
    bool is_to_relay = false;
    std::vector<Met> met = meet_with_relay(net, relay, is_to_relay, [&](int r, RankPlace& own) {
      own.relay = true;
      own.site = sites[static_cast<size_t>(r) - 1];
    });
    expect_pairs(met);
    EXPECT_EQ(is_to_relay, relay->passed_on() > 0);
    // Pairs that talk by it do not, when it is gone.
    relay.reset();
    std::string pairs;
    for (size_t a = 1; a < 4; ++a) {
      for (size_t b = 1; b < a; ++b) {
        const std::byte sent[] = {std::byte(1)};
        static_cast<void>((*met[a])[b]->write(sent).ok());
        std::byte got[1];
        const Result<size_t> n = (*met[b])[a]->read(got, 10s);
        if (!n.ok() || *n == 0) pairs += std::to_string(b) + std::to_string(a) + " ";
      }
    }
    return pairs;
  };
  EXPECT_EQ(passed_on({"a", "a", "a"}), "");
  EXPECT_EQ(passed_on({"a", "a", "b"}), "13 23 ");
  EXPECT_EQ(passed_on({"a", "b", "a"}), "12 23 ");
  EXPECT_EQ(passed_on({"", "", "a"}), "12 13 23 ");
}

TEST(Rendezvous, WhoDoesNotListenIsRelayed) {
  MemoryNet net;
  RankPlace own = place(1, 3);
  own.listen = "";
  EXPECT_THROW(static_cast<void>(meet_ranks(net, own)), Error);
}

TEST(Rendezvous, TheRelayIsForRanksOfItsTraining) {
  MemoryNet net;
  RankRelay relay(net.listen("tuner:1").or_throw(), place(0, 4));
  const auto answer_to = [&](const RankHello& hello) {
    const auto stream = net.dial("tuner:1").or_throw();
    write_hello(*stream, hello).or_throw();
    return read_answer(*stream, 10s).or_throw().refusal;
  };
  const auto hello = [](int rank, int to) {
    return RankHello{.rank = rank, .ranks = 4, .address = "", .fingerprint = kRun, .to = to};
  };
  EXPECT_EQ(answer_to(hello(1, 1)), "rank 1 asks for rank 1");
  EXPECT_EQ(answer_to(hello(1, 0)), "rank 1 asks for rank 0");
  EXPECT_EQ(answer_to(hello(1, 4)), "rank 1 asks for rank 4");
  EXPECT_EQ(answer_to(hello(-1, 2)), "rank -1 asks for rank 2");
  RankHello other = hello(1, 2);
  other.generation = 7;
  EXPECT_EQ(answer_to(other), "it is of another training");
  other = hello(1, 2);
  other.fingerprint[1].second = "vgg16";
  EXPECT_THAT(answer_to(other), HasSubstr("model"));
  const auto waits = net.dial("tuner:1").or_throw();
  write_hello(*waits, hello(1, 2)).or_throw();
  EXPECT_EQ(answer_to(hello(1, 2)), "rank 1 is there already");
}

TEST(Rendezvous, NothingIsPassedOnBeforeAllHaveMet) {
  MemoryNet net;
  const auto listener = net.listen("tuner:1").or_throw();
  RankPlace zero = place(0, 3);
  zero.patience = 300ms;
  std::jthread early([&] {
    const auto stream = net.dial("tuner:1").or_throw();
    write_hello(*stream, {.rank = 1, .ranks = 3, .address = "", .fingerprint = kRun, .to = 2})
        .or_throw();
    EXPECT_THAT(read_answer(*stream, 10s).or_throw().refusal, HasSubstr("nothing is passed on"));
  });
  EXPECT_THAT(receive_ranks(*listener, zero).status().message(), HasSubstr("it wants rank 2"));
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

// Rank 0 listens and says nothing, or is there and another rank is not, or nobody listens.
TEST(Rendezvous, AStopEndsTheWaiting) {
  for (const int there : {0, 1, 2}) {
    MemoryNet net;
    std::unique_ptr<Listener> listener;
    if (there > 0) listener = net.listen("tuner:1").or_throw();
    std::stop_source stop;
    RankPlace patient = place(there == 2 ? 0 : 1, 3);
    patient.patience = 1h;
    patient.stop = stop.get_token();
    auto met = std::async(std::launch::async, [&] {
      return there == 2 ? receive_ranks(*listener, patient) : meet_ranks(net, patient);
    });
    std::unique_ptr<Stream> dialled;
    if (there == 1) dialled = listener->accept(10s).or_throw();
    stop.request_stop();
    EXPECT_FALSE(met.get().ok()) << there;
  }
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
