// What every Net promises, asked of TCP, unix sockets and the network in memory; then the sockets'
// own.
#include "framework/core/net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "framework/core/fs.h"
#include "framework/testing/memory_net.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using namespace std::chrono_literals;
using support::bytes_of;
using ::testing::StartsWith;

std::string read_some(Stream& stream, size_t most = 100) {
  std::string to(most, '?');
  to.resize(stream.read(std::as_writable_bytes(std::span(to)), 10s).or_throw());
  return to;
}

std::string read_all(Stream& stream) {
  std::string all;
  for (std::string part; !(part = read_some(stream, 70'000)).empty();) all += part;
  return all;
}

std::string socket_path() {
  static std::atomic<int> counter{0};
  return join(::testing::TempDir(),
              "ndt" + std::to_string(::getpid()) + "_" + std::to_string(++counter) + ".sock");
}

class AnyNet : public ::testing::TestWithParam<std::string> {
 protected:
  AnyNet() : net(GetParam() == "Memory" ? static_cast<Net&>(memory) : real_net()) {
    listener =
        net.listen(GetParam() == "Unix" ? "unix:" + socket_path() : "127.0.0.1:0").or_throw();
    dialer = net.dial(listener->address()).or_throw();
    accepted = listener->accept(10s).or_throw();
  }

  MemoryNet memory;
  Net& net;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Stream> dialer, accepted;
};

TEST_P(AnyNet, BytesArriveInOrderInBothDirections) {
  dialer->write(bytes_of("ask")).or_throw();
  EXPECT_EQ(read_some(*accepted), "ask");
  accepted->write(bytes_of("answer")).or_throw();
  EXPECT_EQ(read_some(*dialer, 3), "ans");
  EXPECT_EQ(read_some(*dialer), "wer");
  EXPECT_EQ(dialer->peer(), listener->address());
  EXPECT_FALSE(accepted->peer().empty());
}

TEST_P(AnyNet, ReadingEndsInTimeWhenNothingComes) {
  std::byte b;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(dialer->read({&b, 1}, 30ms).status().code(), Code::kCancelled);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 30ms);
  EXPECT_EQ(dialer->read({&b, 1}, 0ms).status().code(), Code::kCancelled);
  EXPECT_EQ(listener->accept(0ms).status().code(), Code::kCancelled);
  EXPECT_THROW(static_cast<void>(dialer->read({}, 0ms).ok()), Error);
}

TEST_P(AnyNet, AReaderGetsTheRestBeforeItSeesThePeerClose) {
  dialer->write(bytes_of("last words")).or_throw();
  dialer.reset();
  EXPECT_EQ(read_all(*accepted), "last words");
  EXPECT_EQ(read_some(*accepted), "");
}

TEST_P(AnyNet, ClosingWakesABlockedRead) {
  std::thread closer([&] {
    std::this_thread::sleep_for(20ms);
    dialer->close();
  });
  std::byte b;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(*dialer->read({&b, 1}, 30s), 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  closer.join();
}

TEST_P(AnyNet, WritingToAPeerThatIsGoneIsAnErrorAndNoSignal) {
  accepted.reset();
  const std::string block(100'000, 'x');
  Status s;
  for (int i = 0; i < 100 && s.ok(); ++i) s = dialer->write(bytes_of(block));
  EXPECT_EQ(s.code(), Code::kIo);
  dialer->close();
  EXPECT_EQ(dialer->write(bytes_of("x")).code(), Code::kIo);
}

TEST_P(AnyNet, OneThreadReadsWhileAnotherWrites) {
  std::string text(4 << 20, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 ^ i >> 11);
  std::string there, back;
  std::thread echo([&] {
    for (std::string part; !(part = read_some(*accepted, 50'000)).empty();) {
      accepted->write(bytes_of(part)).or_throw();
      there += part;
      if (there.size() == text.size()) break;
    }
    accepted->close();
  });
  std::thread writer([&] { dialer->write(bytes_of(text)).or_throw(); });
  back = read_all(*dialer);
  writer.join();
  echo.join();
  EXPECT_TRUE(there == text);
  EXPECT_TRUE(back == text);
}

TEST_P(AnyNet, AnAddressIsTakenOnceAndFreeAgainAfterwards) {
  const std::string address = listener->address();
  EXPECT_EQ(net.listen(address).status().code(), Code::kExists);
  listener.reset();
  EXPECT_FALSE(net.dial(address).ok());
  EXPECT_TRUE(net.listen(address).ok());
}

INSTANTIATE_TEST_SUITE_P(, AnyNet, ::testing::Values("Tcp", "Unix", "Memory"),
                         [](const auto& kind) { return kind.param; });

TEST(RealNet, RefusesWhatIsNoAddress) {
  for (const char* bad : {"", "host", "host:", "unix:", "::1:80", "a:b:1"}) {
    EXPECT_EQ(real_net().dial(bad).status().code(), Code::kUnsupported) << bad;
    EXPECT_EQ(real_net().listen(bad).status().code(), Code::kUnsupported) << bad;
  }
  const std::string longest = "unix:" + std::string(107, 'p');
  EXPECT_EQ(real_net().dial(longest).status().code(), Code::kNotFound);
  EXPECT_EQ(real_net().dial(longest + "p").status().code(), Code::kUnsupported);
  EXPECT_EQ(real_net().dial("127.0.0.1:no-such-service").status().code(), Code::kNotFound);
}

TEST(RealNet, NobodyThereIsAnError) {
  const std::string address = real_net().listen("127.0.0.1:0").or_throw()->address();
  EXPECT_EQ(real_net().dial(address).status().code(), Code::kIo);
  EXPECT_EQ(real_net().dial("unix:" + socket_path()).status().code(), Code::kNotFound);
}

TEST(RealNet, SpeaksIpv6) {
  auto listener = real_net().listen("[::1]:0");
  if (!listener.ok()) GTEST_SKIP() << "no IPv6 here: " << listener.status().message();
  EXPECT_THAT((*listener)->address(), StartsWith("[::1]:"));
  auto dialer = real_net().dial((*listener)->address()).or_throw();
  dialer->write(bytes_of("six")).or_throw();
  EXPECT_EQ(read_some(*(*listener)->accept(10s).or_throw()), "six");
}

TEST(RealNet, AnEmptyHostListensEverywhereAndDialsThisMachine) {
  auto listener = real_net().listen(":0").or_throw();
  const std::string address = listener->address();
  const std::string port = address.substr(address.rfind(':'));
  EXPECT_TRUE(real_net().dial("127.0.0.1" + port).ok());
  EXPECT_TRUE(real_net().dial(port).ok());
}

TEST(RealNet, ASocketFileGoesWithItsListener) {
  const std::string path = socket_path();
  auto listener = real_net().listen("unix:" + path).or_throw();
  EXPECT_TRUE(real_fs().exists(path));
  listener.reset();
  EXPECT_FALSE(real_fs().exists(path));
}

TEST(RealNet, ASocketFileLeftByADeadProcessIsReplacedButNoOtherFile) {
  const std::string path = socket_path();
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  ASSERT_TRUE(real_fs().exists(path));
  EXPECT_TRUE(real_net().listen("unix:" + path).ok());

  auto file = real_fs().open(path, Fs::Mode::kCreate).or_throw();
  EXPECT_FALSE(real_net().listen("unix:" + path).ok());
  EXPECT_TRUE(real_fs().exists(path));
  real_fs().remove(path).or_throw();
}

TEST(RealNet, SignalsDoNotCutAWaitShort) {
  struct sigaction action = {}, old = {};
  action.sa_handler = [](int) {};  // without SA_RESTART: system calls fail with EINTR
  ::sigaction(SIGALRM, &action, &old);
  const itimerval every = {.it_interval = {0, 2000}, .it_value = {0, 2000}};
  ::setitimer(ITIMER_REAL, &every, nullptr);
  auto listener = real_net().listen("127.0.0.1:0").or_throw();
  auto dialer = real_net().dial(listener->address()).or_throw();
  std::byte b;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(dialer->read({&b, 1}, 60ms).status().code(), Code::kCancelled);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 60ms);
  EXPECT_TRUE(listener->accept(10s).ok());
  const itimerval never = {};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &old, nullptr);
}

}  // namespace
}  // namespace ndtrain
