// A server that is to end lets end what is under way, and takes nothing new.
#include "ndp/http/http_drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>

#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using support::RawHttp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::chrono::minutes kLong{1};
constexpr char kHealthz[] = "GET /healthz HTTP/1.1\r\n\r\n";

class HttpDrain : public ::testing::Test {
 protected:
  static HttpLimits patient() {
    HttpLimits limits;
    limits.head = limits.body = limits.patience = std::chrono::hours(1);
    return limits;
  }
  void serve(const HttpLimits& limits = patient()) {
    const auto ok = [](const HttpRequest& q) { return HttpResponse{.body = "ok " + q.body}; };
    server_ = HttpServer::listen("127.0.0.1:0",
                                 {{"GET", "/healthz", Role::kAnyone, ok},
                                  {"GET", "/readyz", Role::kAnyone, ok},
                                  {"GET", "/metrics", Role::kAnyone, ok},
                                  {"POST", "/jobs", Role::kAnyone, ok},
                                  {"GET", "/wait", Role::kAnyone,
                                   [this](const HttpRequest&) {
                                     begun_.set_value();
                                     go_.get_future().wait();
                                     return HttpResponse{.body = "waited"};
                                   }},
                                  {"GET", "/pieces", Role::kAnyone,
                                   [](const HttpRequest&) {
                                     return HttpResponse{.type = "text/event-stream", .pieces = [] {
                                                           return std::optional(std::string("p\n"));
                                                         }};
                                   }}},
                                 1 << 20, {}, limits)
                  .or_throw();
  }
  // Until it is drained.
  std::future<void> drain(std::chrono::milliseconds patience = kLong) {
    server_->drain();
    return std::async(std::launch::async, [this, patience] {
      drain_requests(server_.get(), patience, [] { std::this_thread::sleep_for(milliseconds(1)); });
    });
  }
  static bool goes_on(const std::future<void>& drained) {
    return drained.wait_for(milliseconds(200)) == std::future_status::timeout;
  }

  std::promise<void> begun_, go_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpDrain, WithoutRequestsItIsOver) {
  serve();
  RawHttp idle(server_->address());
  idle.say(kHealthz);
  idle.hear("ok ");
  drain().wait();
  EXPECT_TRUE(server_->drained());
}

TEST_F(HttpDrain, TheAnswerUnderWayIsTheLastOfItsConnectionAndNobodyNewIsLetIn) {
  serve();
  RawHttp raw(server_->address());
  raw.say("GET /wait HTTP/1.1\r\n\r\n");
  begun_.get_future().wait();
  const std::future<void> drained = drain();
  EXPECT_FALSE(HttpClient(server_->address()).get("/metrics").ok());
  EXPECT_TRUE(goes_on(drained));
  go_.set_value();
  const std::string answer = raw.hear_all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_TRUE(answer.ends_with("waited"));
  drained.wait();
  EXPECT_TRUE(server_->drained());
}

TEST_F(HttpDrain, WhoKeptAConnectionIsToldThatTheProcessStops) {
  serve();
  RawHttp raw(server_->address()), health(server_->address()), ready(server_->address()),
      metrics(server_->address());
  for (RawHttp* kept : {&health, &ready, &metrics}) {
    kept->say(kHealthz);
    kept->hear("ok ");
  }
  raw.say("GET /wait HTTP/1.1\r\n\r\n");
  begun_.get_future().wait();
  const std::future<void> drained = drain();
  health.say(kHealthz);
  EXPECT_THAT(health.hear_all(), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("the process stops"),
                                       HasSubstr("\r\nConnection: close\r\n")));
  ready.say("GET /readyz HTTP/1.1\r\n\r\n");
  EXPECT_THAT(ready.hear_all(), StartsWith("HTTP/1.1 503"));
  metrics.say("GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(metrics.hear_all(), StartsWith("HTTP/1.1 200"));
  go_.set_value();
  drained.wait();
}

TEST_F(HttpDrain, ABodyOnItsWayIsStillTaken) {
  serve();
  RawHttp raw(server_->address());
  raw.say("POST /jobs HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  raw.hear("100 Continue\r\n\r\n");
  raw.say("bo");
  const std::future<void> drained = drain();
  EXPECT_TRUE(goes_on(drained));
  raw.say("dy");
  EXPECT_THAT(raw.hear_all(), HasSubstr("ok body"));
  drained.wait();
  EXPECT_TRUE(server_->drained());
}

TEST_F(HttpDrain, WhatDoesNotEndIsCutOff) {
  serve();
  RawHttp raw(server_->address());
  raw.say("POST /jobs HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  raw.hear("100 Continue\r\n\r\n");
  drain(milliseconds(50)).wait();
  EXPECT_FALSE(server_->drained());
  server_.reset();
  EXPECT_EQ(raw.hear_all(), "");
}

TEST_F(HttpDrain, AHeadThatIsHeldBackIsNotWaitedFor) {
  HttpLimits limits = patient();
  limits.patience = milliseconds(100);
  serve(limits);
  RawHttp raw(server_->address());
  raw.say("GET /healthz HTTP/1.1\r\nA: ");
  drain().wait();
  EXPECT_TRUE(server_->drained());
}

TEST_F(HttpDrain, AnswersInPiecesEnd) {
  serve();
  RawHttp raw(server_->address());
  raw.say("GET /pieces HTTP/1.1\r\n\r\n");
  raw.hear("p\n");
  drain().wait();
  raw.hear_all();
  EXPECT_TRUE(server_->drained());
}

// Whether the server had seen them or not; who was answered before keeps a connection.
TEST_F(HttpDrain, WhomTheSystemHadLetInIsAnswered) {
  for (int i = 0; i < 50; ++i) {
    serve();
    std::optional<RawHttp> raw(server_->address());
    raw->say("GET /metrics HTTP/1.1\r\n\r\n");
    const std::future<void> drained = drain();
    EXPECT_THAT(raw->hear("ok "), StartsWith("HTTP/1.1 200")) << i;
    raw.reset();
    drained.wait();
  }
}

}  // namespace
}  // namespace ndtrain::ndp
