// Requests that a page of another site brought a browser to make, and those that two readers of a
// connection would understand differently.
#include "ndp/http/http_origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"
#include "tests/wire/authority.h"

namespace ndtrain::ndp {
namespace {

using support::RawHttp;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpOrigin : public ::testing::Test {
 protected:
  HttpResponse count(const HttpRequest& q) {
    ++calls_;
    return {.body = q.body};
  }
  void serve(const std::string& address, HttpProtection protection) {
    server_ = HttpServer::listen(
                  address,
                  {{"GET", "/jobs", Role::kAnyone, [this](const auto& q) { return count(q); }},
                   {"POST", "/jobs", Role::kAnyone, [this](const auto& q) { return count(q); }}},
                  1000, std::move(protection))
                  .or_throw();
  }
  std::string ask(const std::string& line, const std::string& headers) const {
    RawHttp raw(server_->address());
    raw.say(line + " HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
    return raw.hear_all();
  }
  std::string port() const { return server_->address().substr(server_->address().rfind(':')); }

  std::atomic<int> calls_ = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpOrigin, OnLoopbackHostIsLoopback) {
  serve("127.0.0.1:0", {.names = std::vector<std::string>{}});
  for (const std::string host : {"127.0.0.1", "localhost", "[::1]", "LOCALHOST", "localhost."}) {
    EXPECT_THAT(ask("GET /jobs", "Host: " + host + port() + "\r\n"), StartsWith("HTTP/1.1 200"))
        << host;
    EXPECT_THAT(ask("GET /jobs", "Host: " + host + "\r\n"), StartsWith("HTTP/1.1 200")) << host;
  }
  const int before = calls_;
  for (const std::string& host :
       {std::string("evil.example"), "evil.example" + port(), std::string("localhost.evil.example"),
        std::string("127.0.0.1.evil.example"), std::string("127.0.0.2"), std::string("10.0.0.1"),
        std::string("[::2]"), std::string("x@localhost"), std::string("localhost/")}) {
    EXPECT_THAT(ask("GET /jobs", "Host: " + host + "\r\n"),
                AllOf(StartsWith("HTTP/1.1 421"), HasSubstr("--http-name")))
        << host;
    EXPECT_THAT(ask("POST /jobs", "Host: " + host + "\r\n"), StartsWith("HTTP/1.1 421")) << host;
  }
  EXPECT_EQ(calls_, before);
}

TEST_F(HttpOrigin, ARequestThatNamesNoHostOrTwoIsNone) {
  serve("127.0.0.1:0", {.names = std::vector<std::string>{}});
  EXPECT_THAT(ask("GET /jobs", ""), AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("Host")));
  EXPECT_THAT(ask("GET /jobs", "Host: localhost\r\nHost: evil.example\r\n"),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("more than once")));
  EXPECT_EQ(calls_, 0);
}

TEST_F(HttpOrigin, ANameThatTheServerWasToldIsItsOwn) {
  serve("127.0.0.1:0", {.names = std::vector<std::string>{"tuner.example.org", "*.farm.example"}});
  for (const std::string host : {"tuner.example.org", "a.farm.example:443", "127.0.0.1"}) {
    EXPECT_THAT(ask("GET /jobs", "Host: " + host + "\r\n"), StartsWith("HTTP/1.1 200")) << host;
  }
  for (const std::string host :
       {"example.org", "farm.example", "a.b.farm.example", ".farm.example"}) {
    EXPECT_THAT(ask("GET /jobs", "Host: " + host + "\r\n"), StartsWith("HTTP/1.1 421")) << host;
  }
}

TEST_F(HttpOrigin, WithoutNamesAnyHostDoes) {
  serve("127.0.0.1:0", {});
  EXPECT_THAT(ask("GET /jobs", "Host: evil.example\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpOrigin, TheHostsOfACertificateAreToldByIt) {
  const support::Authority authority;
  const Credentials c = issue(authority.own,
                              {.role = LinkRole::kTuner,
                               .name = "web",
                               .hosts = {"attic.example", "10.1.2.3", "2001:db8::7"}},
                              support::around(authority.now))
                            .or_throw();
  EXPECT_THAT(TlsServer::make(c.certificate, c.key).or_throw()->hosts(),
              ElementsAre("attic.example", "10.1.2.3", "[2001:db8::7]"));
}

TEST_F(HttpOrigin, WhatChangesIsAskedForByOurOwnPagesOnly) {
  serve("127.0.0.1:0", {.names = std::vector<std::string>{}});
  const std::string host = "Host: localhost" + port() + "\r\n";
  for (const std::string from :
       {"Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n", "Origin: http://localhost:1\r\n",
        "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n"}) {
    EXPECT_THAT(ask("POST /jobs", host + from), StartsWith("HTTP/1.1 403")) << from;
  }
  EXPECT_EQ(calls_, 0);
  for (const std::string& from : {std::string(), "Origin: http://localhost" + port() + "\r\n",
                                  std::string("Sec-Fetch-Site: same-origin\r\n")}) {
    EXPECT_THAT(ask("POST /jobs", host + from), StartsWith("HTTP/1.1 200")) << from;
  }
}

TEST_F(HttpOrigin, ABodyHasOneLength) {
  serve("127.0.0.1:0", {.names = std::vector<std::string>{}});
  const std::string chunk = "\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  for (const std::string lengths :
       {"Content-Length: 3\r\nContent-Length: 3", "Content-Length: 3\r\nContent-Length: 30",
        "content-length: 3\r\nCONTENT-LENGTH: 3", "Content-Length: 3, 3", "Content-Length: +3",
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 3", "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Content-Length:", "Content-Length : 3", "Transfer-Encoding: identity"}) {
    RawHttp raw(server_->address());
    raw.say("POST /jobs HTTP/1.1\r\nHost: localhost\r\n" + lengths + chunk +
            "GET /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(raw.hear_all(), AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("Connection: close")))
        << lengths;
  }
  EXPECT_EQ(calls_, 0) << "nothing behind such a request is one";
}

TEST(HostOfAddress, LeavesThePortOut) {
  EXPECT_EQ(host_of_address("a.example:80"), "a.example");
  EXPECT_EQ(host_of_address("a.example"), "a.example");
  EXPECT_EQ(host_of_address("[::1]:80"), "[::1]");
  EXPECT_EQ(host_of_address("[::1]"), "[::1]");
  EXPECT_EQ(host_of_address("unix:/run/a:b"), "unix:/run/a:b");
}

}  // namespace
}  // namespace ndtrain::ndp
