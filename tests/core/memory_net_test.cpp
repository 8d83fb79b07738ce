#include "framework/testing/memory_net.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/files.h"

namespace ndtrain {
namespace {

using namespace std::chrono_literals;
using support::bytes_of;

// Everything until the end of the stream; then whether it was cut.
std::pair<std::string, bool> drain(Stream& stream) {
  std::string all;
  for (;;) {
    std::string part(100, '?');
    const Result<size_t> n = stream.read(std::as_writable_bytes(std::span(part)), 1s);
    if (!n.ok()) return {all, n.status().code() == Code::kIo};
    if (*n == 0) return {all, false};
    all.append(part, 0, *n);
  }
}

struct Pair {
  explicit Pair(MemoryNet& net, const std::string& address = "tuner:1") {
    listener = net.listen(address).or_throw();
    dialer = net.dial(address).or_throw();
    accepted = listener->accept(0ms).or_throw();
  }
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Stream> dialer, accepted;
};

using Drained = std::pair<std::string, bool>;

TEST(MemoryNet, ACutLosesWhatIsUnderWay) {
  MemoryNet net;
  Pair p(net);
  p.dialer->write(bytes_of("lost")).or_throw();
  net.cut(0);
  EXPECT_EQ(drain(*p.accepted), Drained("", true));
  EXPECT_EQ(drain(*p.dialer), Drained("", true));
  EXPECT_EQ(p.dialer->write(bytes_of("x")).code(), Code::kIo);
}

TEST(MemoryNet, ACutDeliversThePrefixesAskedFor) {
  MemoryNet net;
  Pair p(net);
  p.dialer->write(bytes_of("question")).or_throw();
  p.accepted->write(bytes_of("answer")).or_throw();
  net.cut(0, 5, 100);
  net.cut(0, 0, 0);  // a second cut changes nothing
  EXPECT_EQ(drain(*p.accepted), Drained("quest", true));
  EXPECT_EQ(drain(*p.dialer), Drained("answer", true));
}

TEST(MemoryNet, AConnectionBreaksAtAnyByte) {
  for (int64_t at = 0; at <= 9; ++at) {
    MemoryNet net;
    net.cut_next_after(at);
    Pair p(net);
    const bool first = p.dialer->write(bytes_of("abcd")).ok();
    const bool second = p.accepted->write(bytes_of("efgh")).ok();
    EXPECT_EQ(first, at >= 4);
    EXPECT_EQ(second, at >= 8);
    if (at >= 8) net.cut(0, 100, 100);
    const std::string sent = std::string("abcdefgh").substr(0, static_cast<size_t>(at));
    EXPECT_EQ(drain(*p.accepted), Drained(sent.substr(0, 4), true));
    EXPECT_EQ(drain(*p.dialer), Drained(at > 4 ? sent.substr(4) : "", true));
    EXPECT_TRUE(net.dial("tuner:1").or_throw()->write(bytes_of("whole again")).ok());
  }
}

TEST(MemoryNet, ACutWakesABlockedReader) {
  MemoryNet net;
  Pair p(net);
  std::thread cutter([&] {
    std::this_thread::sleep_for(10ms);
    net.cut_all();
  });
  std::byte b;
  EXPECT_EQ(p.dialer->read({&b, 1}, 30s).status().code(), Code::kIo);
  cutter.join();
}

TEST(MemoryNet, NobodyIsReachedWhileItIsDown) {
  MemoryNet net;
  Pair p(net);
  net.set_down(true);
  EXPECT_EQ(net.dial("tuner:1").status().code(), Code::kIo);
  EXPECT_TRUE(p.dialer->write(bytes_of("x")).ok());
  net.set_down(false);
  EXPECT_TRUE(net.dial("tuner:1").ok());
  EXPECT_EQ(net.connections(), 2u);
  EXPECT_THROW(net.cut(2), Error);
}

TEST(MemoryNet, PortZeroIsAPortOfItsOwn) {
  MemoryNet net;
  auto a = net.listen("store:0").or_throw();
  auto b = net.listen("store:0").or_throw();
  EXPECT_NE(a->address(), b->address());
  EXPECT_TRUE(net.dial(b->address()).ok());
}

TEST(MemoryNet, WhoWaitsAtAClosedDoorSeesItClose) {
  MemoryNet net;
  auto listener = net.listen("tuner:1").or_throw();
  auto dialer = net.dial("tuner:1").or_throw();
  listener.reset();
  EXPECT_EQ(drain(*dialer), Drained("", false));
}

TEST(MemoryNet, StreamsOutliveTheNetwork) {
  auto net = std::make_unique<MemoryNet>();
  Pair p(*net);
  net.reset();
  p.dialer->write(bytes_of("x")).or_throw();
  p.dialer.reset();
  EXPECT_EQ(drain(*p.accepted), Drained("x", false));
}

}  // namespace
}  // namespace ndtrain
