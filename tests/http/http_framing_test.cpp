// Where a request ends: bytes of which two readers could make different requests are refused, and
// nothing behind them is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ndp/http/http_server.h"
#include "tests/http/raw_http.h"

namespace ndtrain::ndp {
namespace {

using support::RawHttp;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpFraming : public ::testing::Test {
 protected:
  HttpResponse count(const HttpRequest& r) {
    ++calls_;
    return {.body = r.body};
  }
  // With a request behind it that would be answered.
  std::string answer_to(const std::string& bytes) const {
    RawHttp raw(server_->address());
    raw.say(bytes + "GET /jobs HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    return raw.hear_all();
  }
  void expect_refused(const std::string& bytes) {
    EXPECT_THAT(answer_to(bytes), AllOf(StartsWith("HTTP/1.1 4"), HasSubstr("Connection: close")))
        << ::testing::PrintToString(bytes);
    EXPECT_EQ(calls_.exchange(0), 0) << ::testing::PrintToString(bytes);
  }

  std::atomic<int> calls_ = 0;
  const std::unique_ptr<HttpServer> server_ =
      HttpServer::listen(
          "127.0.0.1:0",
          {{"POST", "/jobs", Role::kAnyone, [this](const HttpRequest& r) { return count(r); }},
           {"GET", "/jobs", Role::kAnyone, [this](const HttpRequest& r) { return count(r); }}},
          1000)
          .or_throw();
};

TEST_F(HttpFraming, LinesEndWithCrLfAlone) {
  for (const std::string head :
       {"POST /jobs HTTP/1.1\nHost: h\r\nContent-Length: 0\r\n\r\n",
        "POST /jobs HTTP/1.1\r\nHost: h\nContent-Length: 0\r\n\r\n",
        "POST /jobs HTTP/1.1\r\nHost: h\r\nX: a\nContent-Length: 5\r\n\r\n",
        "POST /jobs HTTP/1.1\r\nHost: h\r\nX: a\rContent-Length: 5\r\n\r\n",
        "POST /jobs HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\n\r\n\r\n",
        "POST /jobs HTTP/1.1\rHost: h\r\n\r\n"}) {
    expect_refused(head);
  }
}

TEST_F(HttpFraming, AFieldHasOneLineANameAndNoSpaceBeforeItsColon) {
  for (const std::string field :
       {"X: a\r\n b", "X: a\r\n\tb", "Content-Length: 3\r\n 0", "Transfer-Encoding:\r\n chunked",
        " Content-Length: 3", "Content-Length : 3", "Transfer-Encoding : chunked", ": a",
        "no colon", "X\tY: a", "Content-Length\x0b: 3"}) {
    expect_refused("POST /jobs HTTP/1.1\r\nHost: h\r\n" + field + "\r\n\r\nabc");
  }
  expect_refused(std::string("POST /jobs HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", 40));
}

TEST_F(HttpFraming, ARequestLineHasThreeParts) {
  for (const std::string line :
       {"GET  /jobs HTTP/1.1", "GET /jobs  HTTP/1.1", " GET /jobs HTTP/1.1", "GET /jobs",
        "GET /jobs HTTP/2.0", "GET /jobs HTTP/1.1 x", "GET /jobs http/1.1", "GET /jo bs HTTP/1.1",
        "GET\t/jobs\tHTTP/1.1", "G@T{} /jobs HTTP/1.1"}) {
    expect_refused(line + "\r\nHost: h\r\n\r\n");
  }
}

TEST_F(HttpFraming, ChunksSayTheirLengthInHexAndEndWithCrLf) {
  for (const std::string body :
       {"3\nabc\r\n0\r\n\r\n", "3\r\nabc\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n", "0x3\r\nabc\r\n0\r\n\r\n", "-1\r\nabc\r\n0\r\n\r\n",
        " 3\r\nabc\r\n0\r\n\r\n", "fffffffffffffffff3\r\nabc\r\n0\r\n\r\n", "\r\nabc\r\n0\r\n\r\n",
        "3;a\nb\r\nabc\r\n0\r\n\r\n", "3\r\nabc0\r\n\r\n"}) {
    expect_refused("POST /jobs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + body);
  }
  EXPECT_THAT(answer_to("POST /jobs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3;x=1\r\nabc\r\n00\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("abc")));
  EXPECT_EQ(calls_, 2) << "and the request behind it";
}

// RFC 9112, 6.1: what HTTP/1.0 clients mean by it nobody knows.
TEST_F(HttpFraming, ChunksAreOfHttp11) {
  expect_refused("POST /jobs HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
}

}  // namespace
}  // namespace ndtrain::ndp
