// What a route says about the bodies it takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"

namespace ndtrain::ndp {
namespace {

using support::RawHttp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kMost = 100;
constexpr char kForm[] = "multipart/form-data; boundary=bb";

std::string part(const std::string& disposition, const std::string& content) {
  return "--bb\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + content + "\r\n";
}
std::string file(const std::string& content) {
  return part("name=\"photo\"; filename=\"x.jpg\"", content);
}

class HttpBodies : public ::testing::Test {
 protected:
  static HttpResponse echo(const HttpRequest& q) {
    return {.status = 201, .body = q.body, .headers = {{"X-Peer", q.peer}, {"Location", "/x"}}};
  }
  HttpAdmission admit(int64_t bytes) {
    asked_ = bytes;
    if (full_) return {.held = nullptr, .refuse = http_error(429, "not now")};
    ++held_;
    return {.held = std::shared_ptr<void>(this, [this](void*) { --held_; }), .refuse = {}};
  }

  std::atomic<bool> full_ = false;
  std::atomic<int> held_ = 0;
  std::atomic<int64_t> asked_ = 0;
  const std::unique_ptr<HttpServer> server_ =
      HttpServer::listen(
          "127.0.0.1:0",
          {{"POST",
            "/photos",
            Role::kAnyone,
            [this](const HttpRequest& q) {
              EXPECT_EQ(held_, 1);
              return echo(q);
            },
            {.most = kMost,
             .form = true,
             .admit = [this](const HttpRequest&, int64_t bytes) { return admit(bytes); }}},
           {"POST", "/elsewhere", Role::kAnyone, echo, {.read = false}}},
          int64_t{1} << 20)
          .or_throw();
  const HttpClient client_{server_->address()};
};

TEST_F(HttpBodies, TheFileOfAFormIsTheBody) {
  const std::string bytes("\r\n--b\0\xff--bb", 12);
  const HttpResponse r =
      client_.post("/photos", part("name=\"note\"", "a") + file(bytes) + "--bb--\r\n", kForm)
          .or_throw();
  EXPECT_EQ(r.status, 201);
  EXPECT_EQ(r.body, bytes);
  EXPECT_EQ(client_.post("/photos", bytes, "image/jpeg").or_throw().body, bytes);
}

TEST_F(HttpBodies, AFormHasOneFile) {
  EXPECT_EQ(
      client_.post("/photos", part("name=\"note\"", "a") + "--bb--\r\n", kForm).or_throw().status,
      400);
  const HttpResponse two =
      client_.post("/photos", file("a") + file("b") + "--bb--\r\n", kForm).or_throw();
  EXPECT_EQ(two.status, 400);
  EXPECT_THAT(two.body, HasSubstr("one file at a time"));
  EXPECT_EQ(client_.post("/photos", "--bb nonsense", kForm).or_throw().status, 400);
}

TEST_F(HttpBodies, ARouteHasALimitOfItsOwn) {
  for (const int64_t n : {kMost - 1, kMost, kMost + 1}) {
    const std::string bytes(static_cast<size_t>(n), 'x');
    const int status = n > kMost ? 413 : 201;
    EXPECT_EQ(client_.post("/photos", bytes, "image/jpeg").or_throw().status, status) << n;
    EXPECT_EQ(client_.post("/photos", file(bytes) + "--bb--\r\n", kForm).or_throw().status, status)
        << n;
  }
}

TEST_F(HttpBodies, WhatIsNotAdmittedIsNotRead) {
  EXPECT_EQ(client_.post("/photos", "abc", "image/jpeg").or_throw().status, 201);
  EXPECT_EQ(asked_, 3);
  EXPECT_EQ(held_, 0);
  full_ = true;
  RawHttp raw(server_->address());
  raw.say("POST /photos HTTP/1.1\r\nContent-Length: 90\r\n\r\n");  // and nothing follows
  EXPECT_THAT(raw.hear("not now"), StartsWith("HTTP/1.1 429"));
}

TEST_F(HttpBodies, ARouteThatWantsNoneAnswersBeforeItComes) {
  RawHttp raw(server_->address());
  raw.say("POST /elsewhere HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
  const std::string head = raw.hear("\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 201"));
  EXPECT_THAT(head, HasSubstr("Location: /x\r\n"));
}

TEST_F(HttpBodies, AHandlerKnowsTheClientsHost) {
  const HttpResponse r = client_.post("/photos", "abc", "image/jpeg").or_throw();
  EXPECT_EQ(r.headers.at("X-Peer"), "127.0.0.1");
}

}  // namespace
}  // namespace ndtrain::ndp
