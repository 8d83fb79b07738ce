// Users of this machine, told apart by their connections.
#include "ndp/http/peer_user.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "framework/testing/memory_fs.h"
#include "ndp/http/access.h"
#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"

namespace ndtrain::ndp {
namespace {

using support::RawHttp;
using ::testing::StartsWith;

constexpr uid_t kNobody = 65534;

// The thread's own user, which the other threads of the process stay without.
void as_nobody(const std::function<void()>& f) {
  std::thread([&] {
    ASSERT_EQ(::syscall(SYS_setresuid, kNobody, kNobody, kNobody), 0);
    f();
  }).join();
}

// Both ends of a connection over 127.0.0.1.
class Pair {
 public:
  Pair() {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    socklen_t size = sizeof local_;
    ::getsockname(listener_, of(local_), &size);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    for (const int fd : {listener_, client_, accepted_}) ::close(fd);
  }
  void connect() {
    client_ = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(client_, of(local_), sizeof(sockaddr_in)), 0);
    socklen_t size = sizeof peer_;
    accepted_ = ::accept(listener_, of(peer_), &size);
  }
  void hang_up() { ::close(std::exchange(client_, -1)); }
  std::optional<uid_t> user() const { return user_of_peer(peer_, local_); }

 private:
  static sockaddr* of(sockaddr_storage& s) { return reinterpret_cast<sockaddr*>(&s); }
  int listener_ = ::socket(AF_INET, SOCK_STREAM, 0), client_ = -1, accepted_ = -1;
  sockaddr_storage local_ = {}, peer_ = {};
};

TEST(PeerUser, IsWhoseProcessConnected) {
  if (!tells_users_apart()) GTEST_SKIP() << "the kernel does not say";
  Pair pair;
  pair.connect();
  EXPECT_EQ(pair.user(), ::geteuid());
  pair.hang_up();
  EXPECT_EQ(pair.user(), std::nullopt) << "the kernel would say 0, root";
  EXPECT_EQ(user_of_peer({}, {}), std::nullopt);
}

TEST(PeerUser, IsAnotherWhereItIs) {
  if (::geteuid() != 0 || !tells_users_apart()) GTEST_SKIP() << "needs root";
  Pair pair;
  as_nobody([&] { pair.connect(); });
  EXPECT_EQ(pair.user(), kNobody);
  as_nobody([&] { pair.hang_up(); });
  EXPECT_EQ(pair.user(), std::nullopt);
}

TEST(PeerUser, IsWhatAServerLetsInByWithoutATokenOnLoopback) {
  if (::geteuid() != 0 || !tells_users_apart()) GTEST_SKIP() << "needs root";
  MemoryFs fs;
  ManualClock clock;
  fs.make_directories("state").or_throw();
  for (const bool own : {true, false}) {
    Access access(fs, clock, {.directory = "state", .collection = "here", .own_user = own});
    const auto server =
        HttpServer::listen(
            "127.0.0.1:0",
            {{"GET", "/healthz", Role::kAnyone, [](auto&) { return HttpResponse(); }},
             {"GET", "/x", Role::kViewer, [](auto&) { return HttpResponse(); }}},
            1024, {.access = &access})
            .or_throw();
    const auto ask = [&](const std::string& path) {
      RawHttp http(server->address());
      http.say("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
      return http.hear_all();
    };
    EXPECT_THAT(ask("/x"), StartsWith("HTTP/1.1 200"));
    as_nobody([&] {
      EXPECT_THAT(ask("/healthz"), StartsWith("HTTP/1.1 200"));
      const std::string answer = ask("/x");
      EXPECT_THAT(answer, StartsWith(own ? "HTTP/1.1 401" : "HTTP/1.1 200"));
      EXPECT_EQ(answer.find("user 65534 asks") != answer.npos, own) << answer;
    });
  }
}

}  // namespace
}  // namespace ndtrain::ndp
