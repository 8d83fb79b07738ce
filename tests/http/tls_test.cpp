// HTTP over TLS.
#include "framework/tls/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "framework/tls/tls_context.h"
#include "framework/tls/tls_stream.h"
#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"
#include "tests/wire/authority.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using support::RawHttp;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<HttpServer> serve(const Credentials& c, std::atomic<int>& calls) {
  const auto echo = [&calls](const HttpRequest& q) {
    ++calls;
    return HttpResponse{.body = q.body, .type = "text/plain"};
  };
  return HttpServer::listen(
             "127.0.0.1:0",
             {{"GET", "/healthz", Role::kAnyone, echo}, {"PUT", "/x", Role::kAnyone, echo}},
             int64_t{64} << 20, {.tls = TlsServer::make(c.certificate, c.key).or_throw()})
      .or_throw();
}

class Tls : public ::testing::Test {
 protected:
  Credentials own(Validity validity) const {
    return authority_.credentials("tuner", LinkRole::kTuner, validity);
  }
  Result<HttpResponse> ask(const HttpServer& server, const support::Authority& trusted,
                           const std::string& body = "") const {
    const HttpClient client("https://" + server.address(), std::chrono::seconds(10),
                            {.tls = TlsClient::make(trusted.own.certificate).or_throw()});
    return body.empty() ? client.get("/healthz") : client.put("/x", body);
  }
  static std::string why(const Result<HttpResponse>& r) {
    return r.ok() ? "it answered" : r.status().message();
  }

  const support::Authority authority_;
  std::atomic<int> calls_ = 0;
  const std::unique_ptr<HttpServer> server_ = serve(own(support::around(authority_.now)), calls_);
};

TEST_F(Tls, CarriesRequestsAndAnswers) {
  EXPECT_EQ(ask(*server_, authority_).or_throw().status, 200);
  for (const size_t bytes : {size_t{1}, size_t{16384}, size_t{20} << 20}) {
    std::string body(bytes, 'x');
    for (size_t i = 0; i < bytes; i += 997) body[i] = static_cast<char>(i);
    EXPECT_TRUE(ask(*server_, authority_, body).or_throw().body == body) << bytes;
  }
}

TEST_F(Tls, IsOfVersion12OnlyWhereThatIsAskedFor) {
  const auto context = tls::new_context(TLS_client_method(), TLS1_2_VERSION);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  const Credentials c = own(support::around(authority_.now));
  for (const TlsVersion oldest : {TlsVersion::k12, TlsVersion::k13}) {
    const auto tls = TlsServer::make(c.certificate, c.key, oldest).or_throw();
    const auto server = HttpServer::listen("127.0.0.1:0", {}, 1024, {.tls = tls}).or_throw();
    const auto shakes_hands = [&] {
      tls::TlsStream old(real_net().dial(server->address()).or_throw(), context.get(),
                         tls::End::kDialled);
      return old.handshake(std::chrono::seconds(10)).ok();
    };
    EXPECT_EQ(shakes_hands(), oldest == TlsVersion::k12);
    tls->renew(c.certificate, c.key).or_throw();
    EXPECT_EQ(shakes_hands(), oldest == TlsVersion::k12) << "renewed";
  }
}

TEST_F(Tls, KeepsAConnectionForFurtherRequests) {
  const auto client = TlsClient::make(authority_.own.certificate).or_throw();
  const auto stream = client
                          ->wrap(real_net().dial(server_->address()).or_throw(), "127.0.0.1",
                                 std::chrono::seconds(10))
                          .or_throw();
  for (int i = 0; i < 3; ++i) {
    const std::string text = "PUT /x HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    stream->write(std::as_bytes(std::span(text))).or_throw();
    std::string heard;
    while (!heard.ends_with("\r\n\r\nbody")) {
      std::array<std::byte, 100> part;
      const size_t n = stream->read(part, std::chrono::seconds(10)).or_throw();
      ASSERT_GT(n, 0U) << heard;
      heard.append(reinterpret_cast<const char*>(part.data()), n);
    }
  }
  // A silence is no end.
  std::array<std::byte, 100> part;
  EXPECT_EQ(stream->read(part, milliseconds(50)).status().code(), Code::kCancelled);
  EXPECT_EQ(calls_, 3);
}

TEST_F(Tls, AnotherAuthoritysServerIsNotBelieved) {
  const support::Authority other;
  const auto r = ask(*server_, other);
  EXPECT_THAT(why(r), AllOf(HasSubstr(server_->address()), HasSubstr("certificate does not do")));
  EXPECT_EQ(calls_, 0);
  const HttpClient system("https://" + server_->address());
  EXPECT_THAT(why(system.get("/healthz")), HasSubstr("certificate does not do"));
}

TEST_F(Tls, AServerOfAnotherNameIsNotBelieved) {
  const Credentials c =
      issue(authority_.own, {.role = LinkRole::kTuner, .name = "x", .hosts = {"x.example"}},
            support::around(authority_.now))
          .or_throw();
  EXPECT_THAT(why(ask(*serve(c, calls_), authority_)),
              AllOf(HasSubstr("certificate does not do"), HasSubstr("mismatch")));
  // Nor one whose certificate is not for servers.
  const Credentials client =
      authority_.credentials("a", LinkRole::kStore, support::around(authority_.now));
  EXPECT_THAT(why(ask(*serve(client, calls_), authority_)), HasSubstr("certificate does not do"));
  EXPECT_EQ(calls_, 0);
}

TEST_F(Tls, ACertificateThatHasExpiredIsNotBelieved) {
  const auto late = serve(own({authority_.now - 3000, authority_.now - 10}), calls_);
  EXPECT_THAT(why(ask(*late, authority_)), HasSubstr("expired"));
  EXPECT_EQ(calls_, 0);
}

TEST_F(Tls, WhoSpeaksInTheClearIsNotAnswered) {
  EXPECT_FALSE(HttpClient(server_->address()).get("/healthz").ok());
  RawHttp raw(server_->address());
  raw.say("GET /healthz HTTP/1.1\r\n\r\n");
  EXPECT_THAT(raw.hear_all(), ::testing::Not(HasSubstr("HTTP/1.1")));
  EXPECT_EQ(calls_, 0);
  EXPECT_EQ(ask(*server_, authority_).or_throw().status, 200);
}

TEST_F(Tls, WhoSaysNothingHoldsUpNobodyAndNoEnd) {
  auto server = serve(own(support::around(authority_.now)), calls_);
  RawHttp silent(server->address()), half(server->address());
  half.say("\x16\x03\x01\x02");  // a handshake's beginning
  EXPECT_EQ(ask(*server, authority_).or_throw().status, 200);
  const auto before = steady_clock::now();
  server.reset();
  EXPECT_LT(steady_clock::now() - before, std::chrono::seconds(3));
}

TEST_F(Tls, ANewCertificateIsShownToNewConnectionsWhileOldOnesGoOn) {
  const Credentials first = own(support::around(authority_.now));
  const auto tls = TlsServer::make(first.certificate, first.key).or_throw();
  const auto echo = [](const HttpRequest&) { return HttpResponse{.body = "yes"}; };
  const auto server = HttpServer::listen("127.0.0.1:0", {{"GET", "/healthz", Role::kAnyone, echo}},
                                         1 << 20, {.tls = tls, .names = std::vector<std::string>()})
                          .or_throw();
  const auto old = TlsClient::make(authority_.own.certificate)
                       .or_throw()
                       ->wrap(real_net().dial(server->address()).or_throw(), "127.0.0.1",
                              std::chrono::seconds(10))
                       .or_throw();
  const auto answer_on_old = [&](const std::string& host) {
    const std::string text = "GET /healthz HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    old->write(std::as_bytes(std::span(text))).or_throw();
    std::array<std::byte, 1000> part;
    const size_t n = old->read(part, std::chrono::seconds(10)).or_throw();
    return std::string(reinterpret_cast<const char*>(part.data()), n).substr(9, 3);
  };
  EXPECT_EQ(answer_on_old("new.example"), "421");
  const support::Authority other;
  const Credentials next =
      issue(other.own,
            {.role = LinkRole::kTuner, .name = "next", .hosts = {"127.0.0.1", "new.example"}},
            support::around(other.now))
          .or_throw();
  EXPECT_FALSE(tls->renew(next.certificate, first.key).ok());
  EXPECT_EQ(ask(*server, authority_).or_throw().status, 200) << "as before";
  tls->renew(next.certificate, next.key).or_throw();
  EXPECT_EQ(ask(*server, other).or_throw().status, 200);
  EXPECT_THAT(why(ask(*server, authority_)), HasSubstr("certificate does not do"));
  EXPECT_EQ(answer_on_old("new.example"), "200") << "its hosts are names of the server";
}

TEST_F(Tls, AServerThatIsRevokedIsNotBelieved) {
  const Credentials c = own(support::around(authority_.now));
  const auto server = serve(c, calls_);
  const auto client = TlsClient::make(authority_.own.certificate).or_throw();
  const HttpClient asks("https://" + server->address(), std::chrono::seconds(10), {.tls = client});
  EXPECT_EQ(asks.get("/healthz").or_throw().status, 200);
  EXPECT_FALSE(client->renew(authority_.own.certificate, "no list").ok());
  EXPECT_EQ(asks.get("/healthz").or_throw().status, 200) << "as before";
  const std::string list = revoke(authority_.own, "", c.certificate, authority_.now).or_throw();
  client->renew(authority_.own.certificate, list).or_throw();
  EXPECT_THAT(why(asks.get("/healthz")), HasSubstr("certificate revoked"));
  const HttpClient another("https://" + server_->address(), std::chrono::seconds(10),
                           {.tls = client});
  EXPECT_EQ(another.get("/healthz").or_throw().status, 200);
}

TEST_F(Tls, CertificateAndKeyMustBelongTogether) {
  const Credentials a = own(support::around(authority_.now)),
                    b = own(support::around(authority_.now));
  EXPECT_THAT(TlsServer::make(a.certificate, b.key).status().message(), HasSubstr("do not fit"));
  EXPECT_THAT(TlsServer::make("none", a.key).status().message(), HasSubstr("no certificate"));
  EXPECT_THAT(TlsServer::make(a.certificate, "none").status().message(), HasSubstr("no key"));
  EXPECT_FALSE(TlsClient::make("none").ok());
}

}  // namespace
}  // namespace ndtrain::ndp
