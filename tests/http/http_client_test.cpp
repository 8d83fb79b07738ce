#include "ndp/http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "framework/core/limits.h"
#include "framework/core/net.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Takes one connection, reads a little of it, answers with `reply` and hangs up.
class OneReply {
 public:
  explicit OneReply(std::string reply, milliseconds before_the_end = milliseconds(0))
      : thread_([this, reply = std::move(reply), before_the_end] {
          const auto stream = listener_->accept(std::chrono::seconds(30)).or_throw();
          std::array<std::byte, 4096> bytes;
          static_cast<void>(stream->read(bytes, std::chrono::seconds(30)).ok());
          static_cast<void>(stream->write(std::as_bytes(std::span(reply))).ok());
          static_cast<void>(stream->read(bytes, before_the_end).ok());
        }) {}
  std::string address() const { return listener_->address(); }

 private:
  std::unique_ptr<Listener> listener_ = real_net().listen("127.0.0.1:0").or_throw();
  std::jthread thread_;
};

TEST(HttpClient, SaysWhoDoesNotAnswerAndWhy) {
  const std::string address = real_net().listen("127.0.0.1:0").or_throw()->address();
  const auto r = HttpClient(address).get("/healthz");
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.status().message(), AllOf(HasSubstr(address), HasSubstr("refused")));
}

TEST(HttpClient, GivesUpOnASilentServerAfterItsPatience) {
  const OneReply server("", std::chrono::seconds(30));
  const auto r = HttpClient(server.address(), milliseconds(200)).get("/jobs/1");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().code(), Code::kCancelled);
  EXPECT_EQ(r.status().message(), server.address() + ": no answer to GET /jobs/1 within 0.2 s");
}

TEST(HttpClient, SaysWhenTheServerHangsUp) {
  for (const std::string part :
       {"", "HTTP/1.1 200 OK\r\nContent-", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"}) {
    const OneReply server(part);
    const auto r = HttpClient(server.address()).get("/x");
    ASSERT_FALSE(r.ok()) << part;
    EXPECT_EQ(r.status().message(),
              server.address() + ": closed the connection before it answered GET /x");
  }
}

TEST(HttpClient, SaysWhenItIsNoHttp) {
  const OneReply server("220 mail.example ESMTP\r\n\r\n", std::chrono::seconds(30));
  const auto r = HttpClient(server.address()).get("/x");
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.status().message(), HasSubstr("no HTTP"));
}

TEST(HttpClient, OutlivesAServerThatHangsUpWhileItSends) {
  const OneReply server("");
  EXPECT_FALSE(HttpClient(server.address()).put("/x", std::string(size_t{32} << 20, 'x')).ok());
}

TEST(HttpClient, TakesNoMoreThanTheLimit) {
  constexpr auto kMost = static_cast<size_t>(limits::kHttpAnswer);
  for (const size_t bytes : {kMost - 1, kMost, kMost + 1}) {
    const OneReply server("HTTP/1.1 200 OK\r\n\r\n" + std::string(bytes, 'x'));
    const auto r = HttpClient(server.address()).get("/x");
    ASSERT_EQ(r.ok(), bytes <= kMost);
    if (r.ok()) {
      EXPECT_EQ(r->body.size(), bytes);
    } else {
      EXPECT_EQ(r.status().code(), Code::kTooLarge);
    }
  }
}

}  // namespace
}  // namespace ndtrain::ndp
