// Photos that the Tuner hands on to a store: what is answered where that cannot be, or the store
// does not answer as one does.
#include "tuner/http/http_uploads.h"

#include <gmock/gmock.h>

#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HandedOn : public testing::ServiceTest {
 protected:
  // A store that takes uploads there.
  void store_at(const std::string& address) {
    service_.handle({1, LinkOpened{"127.0.0.1:1", ""}});
    wire::FromStore m;
    m.mutable_hello()->add_protocols(kProtocols[0]);
    m.mutable_hello()->set_store("attic");
    service_.handle({1, m});
    m.mutable_space()->set_http(address);
    m.mutable_space()->set_free(1 << 30);
    say(1, m);
  }
  HttpServer::Route relay() {
    const WithService with = [this](const auto& f) { return f(service_); };
    const auto trust = [](const std::string&) { return HttpTrust(); };
    const auto ticket = [](const HttpRequest&, const std::string&, const std::string&) {
      return std::string();
    };
    for (HttpServer::Route& route : placing_routes(with, trust, ticket)) {
      if (route.pattern == "/uploads") return std::move(route);
    }
    throw Error("there is no such route");
  }
};

TEST_F(HandedOn, AStoreThatAnswersAsNoneDoesIsABadGateway) {
  HttpResponse says;
  const auto store =
      HttpServer::listen(
          "127.0.0.1:0",
          {{"POST", "/photos", Role::kAnyone, [&](const HttpRequest&) { return says; }}}, 1000)
          .or_throw();
  store_at(store->address());
  const HttpServer::Route route = relay();
  const auto answer = [&](const HttpResponse& of_store) {
    says = of_store;
    return route.handle({.method = "POST", .path = "/uploads", .body = "a photo"});
  };
  EXPECT_EQ(answer({.status = 422, .body = "{}"}).status, 422) << "that is of the photo";
  const HttpResponse later =
      answer({.status = 503, .body = "{}", .headers = {{"Retry-After", "5"}}});
  EXPECT_EQ(later.status, 503) << "its S3 is away";
  EXPECT_EQ(later.headers.at("Retry-After"), "5");
  for (const int status : {401, 403, 404, 500, 502}) {
    const HttpResponse r = answer({.status = status, .body = "{}"});
    EXPECT_EQ(r.status, 502);
    EXPECT_THAT(r.body, AllOf(HasSubstr("store 'attic' was to take the photo"),
                              HasSubstr("answered status " + std::to_string(status))));
  }
  EXPECT_EQ(answer({.body = "<html>", .type = "text/html"}).status, 502) << "somebody else's page";
}

TEST_F(HandedOn, WhetherAStoreThatCannotBeAskedHasThePhotoIsNotKnown) {
  std::string address;
  {
    const auto store = HttpServer::listen("127.0.0.1:0", {}, 1000).or_throw();
    address = store->address();
  }
  store_at(address);
  const HttpResponse r = relay().handle({.method = "POST", .path = "/uploads", .body = "a photo"});
  EXPECT_EQ(r.status, 502);
  EXPECT_THAT(r.body, AllOf(HasSubstr("it is not known whether it has"),
                            HasSubstr("upload it again, once more does no harm")));
}

TEST_F(HandedOn, ThereAreAsManyAtATimeAsMayBe) {
  const HttpServer::Route route = relay();
  std::vector<HttpAdmission> held;
  for (int i = 0; i < kRelayedAtOnce; ++i) {
    held.push_back(route.body.admit({}, 1));
    ASSERT_NE(held.back().held, nullptr);
  }
  const HttpAdmission refused = route.body.admit({}, 1);
  EXPECT_EQ(refused.held, nullptr);
  ASSERT_TRUE(refused.refuse.has_value());
  EXPECT_EQ(refused.refuse->status, 429);
  EXPECT_EQ(refused.refuse->headers.at("Retry-After"), "1");
  held.pop_back();
  EXPECT_NE(route.body.admit({}, 1).held, nullptr) << "one is over";
}

}  // namespace
}  // namespace ndtrain::tuner
