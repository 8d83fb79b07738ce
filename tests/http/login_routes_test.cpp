// A browser that signs in by a link, over HTTP.
#include "ndp/http/login_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "framework/core/json.h"
#include "framework/testing/memory_fs.h"
#include "ndp/http/audit.h"
#include "ndp/http/peer_user.h"
#include "tests/http/raw_http.h"

namespace ndtrain::ndp {
namespace {

using support::RawHttp;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class LoginRoutes : public ::testing::Test {
 protected:
  void SetUp() override {
    fs_.make_directories("state").or_throw();
    ann_ = add({.name = "ann", .role = Role::kLabeller});
    serve();
  }
  std::string add(Token token) {
    return TokensFile::open(fs_, "state").or_throw().add(std::move(token)).or_throw();
  }
  void serve() {
    access_ =
        std::make_unique<Access>(fs_, clock_, Access::Setting{"state", "here", false, true, true});
    auto routes = login_routes(*access_);
    const auto ok = [this](const HttpRequest& r) {
      ++calls_;
      return HttpResponse{.body = r.who};
    };
    routes.push_back({"GET", "/jobs", Role::kViewer, ok});
    routes.push_back({"PUT", "/label", {Role::kLabeller, HttpScope::kCollection}, ok});
    routes.push_back({"POST", "/jobs", Role::kOperator, ok});
    server_ = HttpServer::listen(
                  "127.0.0.1:0", std::move(routes), 1 << 16,
                  {.access = access_.get(), .audit = &audit_, .names = std::vector<std::string>{}})
                  .or_throw();
  }
  std::string host() const { return server_->address(); }
  // "METHOD /path", and fields.
  std::string ask(const std::string& what, const std::string& fields = "") const {
    RawHttp raw(host());
    raw.say(what + " HTTP/1.1\r\nHost: " + host() + "\r\nConnection: close\r\n" + fields + "\r\n");
    return raw.hear_all();
  }
  static std::string bearer(const std::string& token) {
    return "Authorization: Bearer " + token + "\r\n";
  }
  std::string link(const std::string& token) const {
    const std::string answer = ask("POST /login", bearer(token));
    return parse_json(answer.substr(answer.find("\r\n\r\n") + 4)).at("path");
  }
  // As the browser says it from then on.
  std::string cookie_of(const std::string& answer) const {
    const size_t at = answer.find("Set-Cookie: ") + 12;
    return "Cookie: other=1; " + answer.substr(at, answer.find(';', at) - at) + "\r\n";
  }
  std::string signed_in(const std::string& token) const {
    return cookie_of(ask("GET " + link(token)));
  }
  std::string own() const { return "Origin: http://" + host() + "\r\n"; }

  MemoryFs fs_;
  ManualClock clock_;
  AuditLog audit_{fs_, clock_, "state"};
  std::string ann_;
  int calls_ = 0;
  std::unique_ptr<Access> access_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(LoginRoutes, ALinkSetsACookieOnceAndLeadsToThePage) {
  const std::string path = link(ann_), opened = ask("GET " + path);
  const std::string port = host().substr(host().rfind(':') + 1);
  EXPECT_THAT(opened, AllOf(StartsWith("HTTP/1.1 303"), HasSubstr("\r\nLocation: /\r\n"),
                            HasSubstr("Cache-Control: no-store"),
                            HasSubstr("Referrer-Policy: no-referrer")));
  EXPECT_THAT(opened, HasSubstr("Set-Cookie: ndtrain_" + port + "="));
  EXPECT_THAT(opened, HasSubstr("; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200\r\n"));
  EXPECT_THAT(ask("GET " + path), AllOf(StartsWith("HTTP/1.1 401"), Not(HasSubstr("Set-Cookie"))));
  EXPECT_THAT(ask("GET /login?code=x"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(ask("GET /login"), AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("ndtrain dashboard")));
  EXPECT_THAT(ask("POST /login"), StartsWith("HTTP/1.1 401")) << "a token is needed";
  EXPECT_THAT(fs_.read("state/audit.jsonl").or_throw(),
              AllOf(HasSubstr("\"login\""), HasSubstr("ann"), Not(HasSubstr(path.substr(12)))));
}

TEST_F(LoginRoutes, WhatOnlyLooksAtALinkOrLeadsToItDoesNotUseItUp) {
  const std::string path = link(ann_);
  EXPECT_THAT(ask("HEAD " + path), AllOf(StartsWith("HTTP/1.1 200"), Not(HasSubstr("Set-Cookie"))));
  for (const std::string site : {"cross-site", "same-site"}) {
    EXPECT_THAT(ask("GET " + path, "Sec-Fetch-Site: " + site + "\r\n"),
                AllOf(StartsWith("HTTP/1.1 403"), Not(HasSubstr("Set-Cookie"))));
  }
  EXPECT_THAT(ask("GET " + path, "Sec-Fetch-Site: none\r\n"), StartsWith("HTTP/1.1 303"));
}

TEST_F(LoginRoutes, ACookieLetsItsOwnerDoWhatTheTokenLets) {
  const std::string cookie = signed_in(ann_);
  EXPECT_THAT(ask("GET /jobs", cookie), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("ann")));
  EXPECT_THAT(ask("PUT /label", cookie + own()), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("POST /jobs", cookie + own()),
              AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("needs the role operator")));
  EXPECT_THAT(ask("GET /session", cookie), HasSubstr(R"("browser":true)"));
  EXPECT_THAT(ask("GET /session", bearer(ann_)), HasSubstr(R"("browser":false)"));
  EXPECT_THAT(ask("GET /jobs", bearer("ndt_wrong") + cookie), StartsWith("HTTP/1.1 401"))
      << "a token that comes with it counts";

  const std::string of_one = add({.name = "kid", .role = Role::kLabeller, .collection = "attic"});
  const std::string kids = signed_in(of_one);
  EXPECT_THAT(ask("GET /session", kids), HasSubstr("attic"));
  EXPECT_THAT(ask("PUT /label?collection=attic", kids + own()), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("PUT /label?collection=other", kids + own()), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask("GET /jobs", kids), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(
      ask("GET /session", signed_in(add({.name = "eve", .role = Role::kViewer, .task = "mood"}))),
      StartsWith("HTTP/1.1 200"));
}

TEST_F(LoginRoutes, ACookieChangesNothingButFromOurOwnPages) {
  const std::string cookie = signed_in(ann_);
  const int before = calls_;
  for (const std::string& from :
       {std::string(), std::string("Origin: null\r\n"),
        std::string("Origin: https://evil.test\r\n"), std::string("Origin: http://127.0.0.1:1\r\n"),
        std::string("Sec-Fetch-Site: same-origin\r\n"), std::string("Sec-Fetch-Site: none\r\n"),
        own() + own(), own() + "Sec-Fetch-Site: same-site\r\n"}) {
    EXPECT_THAT(ask("PUT /label", cookie + from), StartsWith("HTTP/1.1 403")) << from;
  }
  EXPECT_EQ(calls_, before);
  EXPECT_THAT(ask("PUT /label", bearer(ann_)), StartsWith("HTTP/1.1 200"))
      << "who has the token is no browser that a page leads";
}

TEST_F(LoginRoutes, ACookieEndsWithItsTokenItsTimeOrByLeaving) {
  const std::string first = signed_in(ann_), second = signed_in(ann_);
  const std::string left = ask("POST /logout", first + own());
  EXPECT_THAT(left, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Max-Age=0")));
  EXPECT_THAT(ask("GET /jobs", first),
              AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("ndtrain dashboard")));
  EXPECT_THAT(ask("GET /jobs", second), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("POST /logout", bearer(ann_)), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask("POST /login", second + own()),
              AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("makes no other")));
  TokensFile::open(fs_, "state").or_throw().revoke("ann", 1).or_throw();
  EXPECT_THAT(ask("GET /jobs", second), AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("revoked")));

  const std::string bob = add({.name = "bob", .role = Role::kViewer}), bobs = signed_in(bob);
  EXPECT_THAT(ask("GET /jobs", bobs), StartsWith("HTTP/1.1 200"));
  clock_.advance(kBrowserSession);
  EXPECT_THAT(ask("GET /jobs", bobs), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(ask("GET /jobs", bearer(bob)), StartsWith("HTTP/1.1 200"));
  const std::string again = signed_in(bob);
  serve();  // anew
  EXPECT_THAT(ask("GET /jobs", again), StartsWith("HTTP/1.1 401"));
}

TEST_F(LoginRoutes, OverTlsACookieIsOfThisHostAloneAndNeverInTheClear) {
  HttpRequest r{.method = "GET", .path = "/login", .who = "ann"};
  r.cookie = session_cookie("tuner.example:8420", true);
  r.query["code"] = access_->make_login_code(r);
  for (const HttpServer::Route& route : login_routes(*access_)) {
    if (route.method != "GET" || route.pattern != "/login") continue;
    const HttpResponse opened = route.handle(r);
    EXPECT_EQ(opened.status, 303);
    EXPECT_THAT(opened.headers.at("Set-Cookie"),
                AllOf(StartsWith("__Host-ndtrain_8420="), HasSubstr("; Path=/;"),
                      HasSubstr("; Secure"), Not(HasSubstr("Domain"))));
  }
  EXPECT_FALSE(access_->redeem(r.query["code"], r)) << "it was used";
}

TEST_F(LoginRoutes, WhereNobodyNeedsATokenNoLinkDoes) {
  fs_.remove("state/tokens.json").or_throw();
  serve();
  if (!tells_users_apart()) GTEST_SKIP() << "the kernel does not say whose a connection is";
  EXPECT_THAT(ask("POST /login"), HasSubstr(R"("path":"/")"));
}

TEST_F(LoginRoutes, PagesOfOtherSitesReadOnlyWhatAnyoneMay) {
  const std::string cookie = signed_in(ann_);
  for (const std::string from : {"Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n",
                                 "Origin: http://evil.test\r\n", "Origin: null\r\n"}) {
    EXPECT_THAT(ask("GET /jobs", cookie + from), StartsWith("HTTP/1.1 403")) << from;
    EXPECT_THAT(ask("GET /jobs", bearer(ann_) + from), StartsWith("HTTP/1.1 403")) << from;
    EXPECT_THAT(ask("GET /nothing", cookie + from), StartsWith("HTTP/1.1 403")) << from;
  }
  for (const std::string& from : {std::string("Sec-Fetch-Site: same-origin\r\n"), own(),
                                  std::string("Sec-Fetch-Site: none\r\n"), std::string()}) {
    EXPECT_THAT(ask("GET /jobs", cookie + from), StartsWith("HTTP/1.1 200")) << from;
  }
}

TEST_F(LoginRoutes, EachAnswerSaysWhatABrowserMayDoWithIt) {
  for (const std::string& answer :
       {ask("GET /jobs", bearer(ann_)), ask("GET /jobs"), ask("GET /nothing", bearer(ann_)),
        ask("GET /login"), ask("NONSENSE")}) {
    EXPECT_THAT(answer, AllOf(HasSubstr("X-Content-Type-Options: nosniff\r\n"),
                              HasSubstr("Referrer-Policy: no-referrer\r\n"),
                              HasSubstr("frame-ancestors 'none'\r\n"),
                              HasSubstr("X-Frame-Options: DENY\r\n"),
                              HasSubstr("Cross-Origin-Resource-Policy: same-origin\r\n"),
                              HasSubstr("Content-Security-Policy: default-src 'none';")));
  }
}

}  // namespace
}  // namespace ndtrain::ndp
