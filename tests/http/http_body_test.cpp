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
  std::atomic<int> held_ = 0, begun_ = 0;
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
           {"POST", "/elsewhere", Role::kAnyone, echo, {.read = false}},
           {"POST",
            "/models",
            Role::kAnyone,
            echo,
            {.begin = [this](const HttpRequest&,
                             std::string_view beginning) -> std::optional<HttpResponse> {
              ++begun_;
              EXPECT_GE(beginning.size(), kHttpBeginning);
              if (beginning.starts_with("MODEL")) return std::nullopt;
              return http_error(422, "no model");
            }}}},
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

// Its rest never comes.
TEST_F(HttpBodies, ALongOneIsRefusedByItsBeginning) {
  for (const std::string size :
       {"Content-Length: 1000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nF4240\r\n"}) {
    RawHttp raw(server_->address());
    raw.say("POST /models HTTP/1.1\r\nHost: x\r\n" + size + std::string(kHttpBeginning, '['));
    const std::string answer = raw.hear_all();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 422"));
    EXPECT_THAT(answer, HasSubstr("no model"));
  }
  EXPECT_EQ(begun_, 2);
}

TEST_F(HttpBodies, TheBeginningIsAskedAboutOnceHoweverTheBodyComes) {
  RawHttp raw(server_->address());
  const std::string body = "MODEL" + std::string(95, '.');
  raw.say("POST /models HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100\r\n\r\n");
  for (const char c : body) raw.say(std::string(1, c));
  EXPECT_THAT(raw.hear_all(), HasSubstr(body));
  EXPECT_LE(begun_, 1);
}

TEST_F(HttpBodies, AnEncodingIsRefused) {
  for (const auto& [encoding, status] :
       {std::pair("gzip", "415"), {"gzip, identity", "415"}, {"identity", "201"}}) {
    RawHttp raw(server_->address());
    raw.say("POST /models HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: " +
            std::string(encoding) + "\r\nContent-Length: 1\r\n\r\nx");
    EXPECT_THAT(raw.hear_all(), StartsWith(std::string("HTTP/1.1 ") + status)) << encoding;
  }
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
