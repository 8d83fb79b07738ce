// What a server says to those it cannot serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/core/limits.h"
#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"

namespace ndtrain::ndp {
namespace {

using support::RawHttp;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kMostHeaders = 1000;

std::string error_of(const HttpResponse& r) {
  EXPECT_EQ(r.type, "application/json");
  return nlohmann::json::parse(r.body).at("error").get<std::string>();
}

class HttpRefusal : public ::testing::Test {
 protected:
  HttpResponse count(const HttpRequest& q) {
    ++calls_;
    return {.body = std::to_string(q.body.size())};
  }
  std::string reply_to(const std::string& text) {
    RawHttp raw(server_->address());
    raw.say(text);
    return raw.hear("}\n");
  }

  std::atomic<int> calls_ = 0;
  const std::unique_ptr<HttpServer> server_ =
      HttpServer::listen(
          "127.0.0.1:0",
          {{"POST", "/jobs", Role::kAnyone, [this](const HttpRequest& q) { return count(q); }},
           {"GET", "/jobs", Role::kAnyone, [this](const HttpRequest& q) { return count(q); }},
           {"GET", "/long/(.*)", Role::kAnyone, [this](const HttpRequest& q) { return count(q); }},
           {"GET", "/bug", Role::kAnyone,
            [](const HttpRequest&) -> HttpResponse {
              throw Error("job 7 has \"no\" photos \xff");
            }}},
          kMostHeaders)
          .or_throw();
  const HttpClient client_{server_->address()};
};

TEST_F(HttpRefusal, IsA404ForAPathThatNobodyTakes) {
  const HttpResponse r = client_.get("/job").or_throw();
  EXPECT_EQ(r.status, 404);
  EXPECT_EQ(error_of(r), "there is no /job here");
  EXPECT_EQ(client_.post("/job", "body").or_throw().status, 404);
  EXPECT_EQ(client_.get("/jobs/").or_throw().status, 404);
  EXPECT_EQ(client_.get("/a%0Ab").or_throw().status, 404);
}

TEST_F(HttpRefusal, IsA405ForAMethodThatThePathDoesNotTake) {
  const HttpResponse r = client_.put("/jobs", "body").or_throw();
  EXPECT_EQ(r.status, 405);
  EXPECT_EQ(error_of(r), "/jobs takes POST, GET, not PUT");
}

TEST_F(HttpRefusal, IsA413FromTheFirstByteOverTheLimit) {
  for (const size_t n : {kMostHeaders - 1, kMostHeaders}) {
    EXPECT_EQ(client_.post("/jobs", std::string(n, 'x')).or_throw().body, std::to_string(n));
  }
  const int before = calls_;
  const HttpResponse r = client_.post("/jobs", std::string(kMostHeaders + 1, 'x')).or_throw();
  EXPECT_EQ(r.status, 413);
  EXPECT_EQ(error_of(r), "the body has more than 1000 bytes, the most /jobs takes");
  EXPECT_EQ(calls_, before);
}

TEST_F(HttpRefusal, OfABodyReachesAClientThatIsStillSendingIt) {
  EXPECT_EQ(client_.post("/jobs", std::string(size_t{32} << 20, 'x')).or_throw().status, 413);
  EXPECT_EQ(client_.post("/job", std::string(size_t{32} << 20, 'x')).or_throw().status, 404);
}

TEST_F(HttpRefusal, IsA413ForChunksThatAddUpToMore) {
  const std::string half = "1f4\r\n" + std::string(500, 'x') + "\r\n";
  const std::string head = "POST /jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_THAT(reply_to(head + half + half + "1\r\ny\r\n0\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 413"), HasSubstr("1000 bytes")));
  RawHttp raw(server_->address());
  raw.say(head + half + half + "0\r\n\r\n");
  EXPECT_THAT(raw.hear("1000"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpRefusal, IsA400ForALengthThatIsNone) {
  EXPECT_THAT(reply_to("POST /jobs HTTP/1.1\r\nContent-Length: some\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("Content-Length: some is no number")));
  EXPECT_THAT(reply_to("POST /jobs HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(reply_to("POST /jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpRefusal, IsA400ForWhatIsNoHttp) {
  EXPECT_THAT(reply_to("hello\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("{\"error\":")));
  EXPECT_EQ(calls_, 0);
}

TEST_F(HttpRefusal, TakesNothingMoreFromAConnectionThatItDoesNotUnderstand) {
  RawHttp raw(server_->address());
  raw.say("hello\r\n\r\nGET /jobs HTTP/1.1\r\n\r\n");
  EXPECT_THAT(raw.hear_all(), AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("Connection: close"),
                                    EndsWith("server understands\"}\n")));
  EXPECT_EQ(calls_, 0);
}

TEST_F(HttpRefusal, IsA415ForAForm) {
  EXPECT_THAT(reply_to("POST /jobs HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
                       "Content-Length: 5\r\n\r\n--b--"),
              AllOf(StartsWith("HTTP/1.1 415"), HasSubstr("--data-binary")));
}

TEST_F(HttpRefusal, IsA500ForAHandlerThatThrows) {
  const HttpResponse r = client_.get("/bug").or_throw();
  EXPECT_EQ(r.status, 500);
  EXPECT_EQ(error_of(r), "job 7 has \"no\" photos \xef\xbf\xbd");
}

TEST_F(HttpRefusal, EndsAHeadThatIsTooLong) {
  const auto head_of = [](size_t bytes) {
    std::string head = "GET /jobs HTTP/1.1\r\n";
    while (head.size() + 100 < bytes) head += "A: " + std::string(40, 'x') + "\r\n";
    return head + "A: " + std::string(bytes - head.size() - 7, 'x') + "\r\n\r\n";
  };
  constexpr auto kHead = static_cast<size_t>(limits::kHttpHead);
  for (const size_t bytes : {kHead - 1, kHead}) {
    RawHttp raw(server_->address());
    ASSERT_EQ(head_of(bytes).size(), bytes);
    raw.say(head_of(bytes) + "GET /jobs HTTP/1.1\r\n\r\n");
    EXPECT_THAT(raw.hear("\r\n\r\n0"), StartsWith("HTTP/1.1 200")) << bytes;
  }
  EXPECT_THAT(reply_to(head_of(kHead + 1)), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpRefusal, IsA414ForAPathThatIsTooLong) {
  const auto path_of = [](int64_t bytes) {
    const std::string start = "/long/";
    return start + std::string(static_cast<size_t>(bytes) - start.size(), 'x');
  };
  for (const int64_t bytes : {limits::kHttpPath - 1, limits::kHttpPath}) {
    EXPECT_EQ(client_.get(path_of(bytes)).or_throw().status, 200);
  }
  for (const int64_t bytes : {limits::kHttpPath + 1, int64_t{8000}, int64_t{9000}}) {
    const HttpResponse r = client_.get(path_of(bytes)).or_throw();
    EXPECT_EQ(r.status, 414);
    EXPECT_NE(error_of(r), "");
  }
}

}  // namespace
}  // namespace ndtrain::ndp
