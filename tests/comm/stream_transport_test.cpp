// What streams do to a transport: damage, silence, ends.
#include "framework/comm/stream_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <map>
#include <mutex>

#include "framework/comm/frame.h"
#include "tests/comm/rank_threads.h"
#include "tests/support/files.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using support::bytes_of;
using ::testing::HasSubstr;

// Rank 0, whose peer the test plays.
class Streams : public ::testing::Test {
 protected:
  explicit Streams(const StreamOptions& options = {}) {
    const auto listener = net.listen("rank:1").or_throw();
    std::vector<std::unique_ptr<Stream>> streams(2);
    streams[1] = net.dial("rank:1").or_throw();
    peer = listener->accept(0ms).or_throw();
    rank0 = stream_transport(0, std::move(streams), options);
  }

  void say(uint64_t tag, std::string_view body, uint64_t total, uint64_t offset) {
    std::vector<std::byte> frame(kFrameHeaderBytes);
    const auto bytes = bytes_of(body);
    frame.insert(frame.end(), bytes.begin(), bytes.end());
    seal_frame({.kind = FrameHeader::Kind::kPart,
                .length = static_cast<uint32_t>(body.size()),
                .tag = tag,
                .total = total,
                .offset = offset},
               frame);
    if (damage >= 0) frame[static_cast<size_t>(damage)] ^= std::byte{1};
    peer->write(frame).or_throw();
  }

  // How a receive of message 7 ends.
  Status end_of_receive() {
    const auto request = rank0->receive(1, 7, into_);
    std::vector<Transport::Done> done;
    for (int i = 0; i < 100 && done.empty(); ++i) rank0->poll(done, 100ms);
    if (done.size() != 1 || done[0].request != request)
      return {Code::kNotFound, "it has not ended"};
    return done[0].status;
  }

  MemoryNet net;
  std::unique_ptr<Stream> peer;
  std::unique_ptr<Transport> rank0;
  int damage = -1;  // of the next frame, which byte

 private:
  std::array<std::byte, 8> into_ = {};
};

TEST_F(Streams, DamageIsNamedByPeerAndMessage) {
  damage = kFrameHeaderBytes + 2;
  say(7, "abcd", 8, 0);
  const Status s = end_of_receive();
  EXPECT_EQ(s.code(), Code::kCorrupt);
  EXPECT_EQ(s.message(), "rank 1 (rank:1): a part of message 7 came damaged");
}

TEST_F(Streams, ADamagedHeaderIsNamedByTheMessageThatItBroke) {
  say(7, "abcd", 8, 0);
  damage = 20;
  say(7, "efgh", 8, 4);
  const Status s = end_of_receive();
  EXPECT_EQ(s.code(), Code::kCorrupt);
  EXPECT_EQ(s.message(),
            "rank 1 (rank:1): what came is no frame of ours (in the middle of message 7)");
}

TEST_F(Streams, AnEndInTheMiddleOfAMessageIsNoMessage) {
  say(7, "abcd", 8, 0);
  peer.reset();
  const Status s = end_of_receive();
  EXPECT_EQ(s.code(), Code::kIo);
  EXPECT_EQ(s.message(), "rank 1 (rank:1): hung up (in the middle of message 7)");
}

TEST_F(Streams, AfterTheEndIsWhatHadCome) {
  say(7, "abcdefgh", 8, 0);
  peer.reset();
  EXPECT_TRUE(end_of_receive().ok());
  EXPECT_EQ(end_of_receive().code(), Code::kIo);
}

TEST_F(Streams, AGreetingInTheMiddleOfARunIsCorrupt) {
  write_frame(*peer, FrameHeader::Kind::kHello).or_throw();
  EXPECT_EQ(end_of_receive().code(), Code::kCorrupt);
}

TEST_F(Streams, WhoLeavesSaysSoAndIsNotMissed) {
  rank0.reset();
  FrameReader frames(*peer, 10s);
  EXPECT_EQ(frames.next().or_throw().header.kind, FrameHeader::Kind::kBye);
}

// Takes nothing before the gate is open.
class GatedStream final : public Stream {
 public:
  struct Gate {
    std::latch asked{1}, open{1};
  };
  GatedStream(std::unique_ptr<Stream> inner, Gate& gate) : inner_(std::move(inner)), gate_(gate) {}

  Result<size_t> read(std::span<std::byte> to, std::chrono::milliseconds timeout) override {
    return inner_->read(to, timeout);
  }
  Status write(std::span<const std::byte> bytes) override {
    std::call_once(once_, [&] { gate_.asked.count_down(); });
    gate_.open.wait();
    return inner_->write(bytes);
  }
  void close() override { inner_->close(); }
  std::string peer() const override { return inner_->peer(); }

 private:
  const std::unique_ptr<Stream> inner_;
  Gate& gate_;
  std::once_flag once_;
};

TEST(StreamTransport, WhatIsUrgentOvertakesBulkThatHasNotBegunToLeave) {
  MemoryNet net;
  const auto listener = net.listen("rank:1").or_throw();
  GatedStream::Gate gate;
  std::vector<std::unique_ptr<Stream>> streams(2);
  streams[1] = std::make_unique<GatedStream>(net.dial("rank:1").or_throw(), gate);
  const auto peer = listener->accept(0ms).or_throw();
  const auto rank0 = stream_transport(0, std::move(streams), {});

  const std::vector<std::byte> bytes(kMostFrameBytes + 1);  // two frames
  rank0->send_bulk(1, 10, bytes);
  gate.asked.wait();
  rank0->send_bulk(1, 20, std::span(bytes).first(3));
  rank0->send(1, 30, std::span(bytes).first(3));
  rank0->send_bulk(1, 40, std::span(bytes).first(3));
  rank0->send(1, 50, std::span(bytes).first(3));
  gate.open.count_down();
  FrameReader frames(*peer, 10s);
  std::vector<uint64_t> tags;
  while (tags.size() < 6) tags.push_back(frames.next().or_throw().header.tag);
  EXPECT_THAT(tags, ::testing::ElementsAre(10, 10, 30, 50, 20, 40));
}

class ImpatientStreams : public Streams {
 protected:
  ImpatientStreams() : Streams({.silence = 600ms, .farewell = 10ms}) {}
};

TEST_F(ImpatientStreams, APeerThatIsSilentIsLost) {
  const Status s = end_of_receive();
  EXPECT_EQ(s.code(), Code::kCancelled);
  EXPECT_EQ(s.message(), "rank 1 (rank:1): silent for 600 ms");
}

TEST_F(ImpatientStreams, WhoHasNothingToSaySaysSo) {
  FrameReader frames(*peer, 10s);
  EXPECT_EQ(frames.next().or_throw().header.kind, FrameHeader::Kind::kAlive);
}

TEST(StreamTransport, NeedsAStreamToEachPeer) {
  EXPECT_THROW(stream_transport(0, std::vector<std::unique_ptr<Stream>>(2)), Error);
  EXPECT_THROW(stream_transport(1, std::vector<std::unique_ptr<Stream>>(1)), Error);
  EXPECT_EQ(stream_transport(0, std::vector<std::unique_ptr<Stream>>(1))->ranks(), 1);
}

// A connection that breaks at any byte: what was said to be there is whole.
TEST(StreamTransport, AConnectionMayBreakAnywhere) {
  int64_t arrived = 0;
  for (int64_t at = 0; at < 300; at += 7) {
    MemoryNet net;
    const auto listener = net.listen("rank:1").or_throw();
    net.cut_next_after(at);
    std::vector<std::unique_ptr<Stream>> to1(2), to0(2);
    to1[1] = net.dial("rank:1").or_throw();
    to0[0] = listener->accept(0ms).or_throw();
    const auto rank0 = stream_transport(0, std::move(to1)),
               rank1 = stream_transport(1, std::move(to0));
    const std::string sent = "whole";
    std::string got[3] = {"?????", "?????", "?????"};
    for (uint64_t tag = 0; tag < 3; ++tag) {
      rank0->send(1, tag, std::as_bytes(std::span(sent)));
      rank1->receive(0, tag, std::as_writable_bytes(std::span(got[tag])));
    }
    std::vector<Transport::Done> done;
    while (done.size() < 3) rank1->poll(done, 10s);
    for (const auto& d : done) {
      arrived += d.status.ok();
      EXPECT_EQ(got[d.request - 1], d.status.ok() ? "whole" : "?????") << "cut at " << at;
    }
    std::vector<Transport::Done> all_sent;
    while (all_sent.size() < 3) rank0->poll(all_sent, 10s);
  }
  EXPECT_GT(arrived, 30);
}

// Its writes return when the test lets them, as on a machine that is busy.
class SlowStream final : public Stream {
 public:
  SlowStream(std::unique_ptr<Stream> inner, std::shared_future<void> go_on)
      : inner_(std::move(inner)), go_on_(std::move(go_on)) {}

  Result<size_t> read(std::span<std::byte> to, std::chrono::milliseconds timeout) override {
    return inner_->read(to, timeout);
  }
  Status write(std::span<const std::byte> bytes) override {
    Status s = inner_->write(bytes);
    go_on_.wait();
    return s;
  }
  void close() override { inner_->close(); }
  std::string peer() const override { return inner_->peer(); }

 private:
  const std::unique_ptr<Stream> inner_;
  const std::shared_future<void> go_on_;
};

// The peer has what it waited for, and leaves before this rank knows that it was sent.
TEST(StreamTransport, WhatAPeerHasTakenBeforeItLeavesIsNotLost) {
  MemoryNet net;
  const auto listener = net.listen("rank:1").or_throw();
  std::promise<void> go_on;
  std::vector<std::unique_ptr<Stream>> streams(2);
  streams[1] =
      std::make_unique<SlowStream>(net.dial("rank:1").or_throw(), go_on.get_future().share());
  const auto peer = listener->accept(0ms).or_throw();
  const auto rank0 = stream_transport(0, std::move(streams));
  const std::string taken = "taken", late = "late";
  std::string never = "?";
  const auto first = rank0->send(1, 7, std::as_bytes(std::span(taken)));
  const auto second = rank0->send(1, 8, std::as_bytes(std::span(late)));
  const auto third = rank0->receive(1, 9, std::as_writable_bytes(std::span(never)));
  FrameReader frames(*peer, 10s);
  EXPECT_EQ(frames.next().or_throw().header.tag, 7u);
  write_frame(*peer, FrameHeader::Kind::kBye).or_throw();
  std::vector<Transport::Done> done;
  while (done.size() < 2) rank0->poll(done, 10s);
  go_on.set_value();
  while (done.size() < 3) rank0->poll(done, 10s);
  std::map<Transport::Request, bool> ok;
  for (const Transport::Done& d : done) ok[d.request] = d.status.ok();
  EXPECT_TRUE(ok.at(first));
  EXPECT_FALSE(ok.at(second));
  EXPECT_FALSE(ok.at(third));
}

// Collectives over sockets, with what a run does at its end.
void carry_out_a_run(Ranks ranks) {
  constexpr size_t kLength = 300'000;
  run_ranks(std::move(ranks), {}, [](Communicator& comm) {
    const RankGroup all = {0, 1, 2};
    std::vector<float> x(kLength);
    for (int step = 1; step <= 5; ++step) {
      std::ranges::fill(x, static_cast<float>(step * (comm.rank() + 1)));
      carry_out(comm, {.kind = CommOp::Kind::kAllReduce, .group = all, .name = "AR", .data = x});
      EXPECT_EQ(std::ranges::count(x, static_cast<float>(6 * step)), std::ssize(x));
    }
    carry_out(comm, {.kind = CommOp::Kind::kBarrier, .group = all, .name = "end"});
  });
}

TEST(StreamTransport, CarriesARunOverLoopback) {
  carry_out_a_run(stream_transports(real_net(), "127.0.0.1", 3));
}

TEST(StreamTransport, CarriesARunOverTls) { carry_out_a_run(tls_transports(3)); }

TEST(StreamTransport, ARankThatDiesIsNamedByAllOthers) {
  run_ranks(stream_transports(real_net(), "127.0.0.1", 3), {}, [](Communicator& comm) {
    if (comm.rank() == 1) return;
    const auto op =
        comm.enqueue({.kind = CommOp::Kind::kBarrier, .group = {0, 1, 2}, .name = "AG 2"});
    comm.release(op);
    try {
      comm.wait(op);
      ADD_FAILURE() << "nobody was missed";
    } catch (const RankLost& e) {
      EXPECT_THAT(e.ranks, ::testing::ElementsAre(1));
      EXPECT_THAT(e.what(), HasSubstr("'AG 2' lacks rank 1 (127.0.0.1:"));
      EXPECT_THAT(e.what(), HasSubstr("has left"));
    }
    comm.begin_generation(1, {0, 2});
    carry_out(comm, {.kind = CommOp::Kind::kBarrier, .group = {0, 2}, .name = "end"});
  });
}

}  // namespace
}  // namespace ndtrain::comm_tests
