// Answers whose body comes piece by piece.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ndp/http/http_client.h"
#include "ndp/http/http_server.h"
#include "tests/http/raw_http.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::steady_clock;
using support::RawHttp;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// GET /pieces gives these, one at a time; then what `more` gives. `open` counts answers underway.
struct Pieces {
  std::vector<std::string> first;
  std::function<std::optional<std::string>()> more = [] { return std::nullopt; };
  std::atomic<int> open = 0, asked = 0;

  std::unique_ptr<HttpServer> serve() {
    const auto answer = [this](const HttpRequest&) {
      ++open;
      const std::shared_ptr<void> held(nullptr, [this](void*) { --open; });
      return HttpResponse{.type = "text/event-stream",
                          .pieces = [this, held, i = size_t{0}]() mutable {
                            ++asked;
                            return i < first.size() ? std::optional(first[i++]) : more();
                          }};
    };
    return HttpServer::listen("127.0.0.1:0", {{"GET", "/pieces", Role::kAnyone, answer}}, 1000)
        .or_throw();
  }
  bool closed_within(std::chrono::seconds time) const {
    const auto until = steady_clock::now() + time;
    while (open > 0 && steady_clock::now() < until) std::this_thread::yield();
    return open == 0;
  }
};

std::optional<std::string> nothing_for_now() {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return "";
}

TEST(HttpPieces, MakeABodyThatEndsWithTheConnection) {
  Pieces pieces{.first = {"one\n", "", "two\n"}};
  const auto server = pieces.serve();
  RawHttp raw(server->address());
  raw.say("GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string all = raw.hear_all();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(all, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(all, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(all, Not(HasSubstr("Content-Length")));
  EXPECT_TRUE(all.ends_with("\r\n\r\none\ntwo\n")) << all;
  EXPECT_EQ(HttpClient(server->address()).get("/pieces").or_throw().body, "one\ntwo\n");
}

TEST(HttpPieces, ArriveWhenTheyAreMade) {
  Pieces pieces{.first = {"one\n"}, .more = nothing_for_now};
  const auto server = pieces.serve();
  RawHttp raw(server->address());
  raw.say("GET /pieces HTTP/1.1\r\n\r\n");
  EXPECT_THAT(raw.hear("one\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(pieces.open, 1);
}

TEST(HttpPieces, EndWhenTheClientHangsUp) {
  Pieces pieces{.first = {"one\n"}, .more = nothing_for_now};
  const auto server = pieces.serve();
  {
    RawHttp raw(server->address());
    raw.say("GET /pieces HTTP/1.1\r\n\r\n");
    raw.hear("one\n");
  }
  EXPECT_TRUE(pieces.closed_within(std::chrono::seconds(10)));
}

TEST(HttpPieces, EndWithTheServer) {
  Pieces pieces{.first = {"one\n"}, .more = nothing_for_now};
  auto server = pieces.serve();
  RawHttp raw(server->address());
  raw.say("GET /pieces HTTP/1.1\r\n\r\n");
  raw.hear("one\n");
  const auto begun = steady_clock::now();
  server.reset();
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(2)) << "it waits for no farewell";
  EXPECT_EQ(raw.hear_all(), "");
}

TEST(HttpPieces, ThatFailEndTheAnswerAndNoMore) {
  Pieces pieces{.first = {"one\n"},
                .more = []() -> std::optional<std::string> { throw Error("no more of this"); }};
  const auto server = pieces.serve();
  RawHttp raw(server->address());
  raw.say("GET /pieces HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(raw.hear_all().ends_with("one\n"));
  EXPECT_TRUE(pieces.closed_within(std::chrono::seconds(10)));
}

TEST(HttpPieces, AreNotMadeForAHead) {
  Pieces pieces{.first = {"one\n"}};
  const auto server = pieces.serve();
  RawHttp raw(server->address());
  raw.say("HEAD /pieces HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string all = raw.hear_all();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(all.ends_with("\r\n\r\n")) << all;
  EXPECT_EQ(pieces.asked, 0);
}

}  // namespace
}  // namespace ndtrain::ndp
