// So many requests a second for each token, and for each address without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "framework/testing/memory_fs.h"
#include "ndp/http/access.h"
#include "ndp/http/http_routes.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;

class HttpRate : public ::testing::Test {
 protected:
  void SetUp() override {
    fs_.make_directories("state").or_throw();
    for (const char* name : {"ann", "bob"}) {
      tokens_[name] = TokensFile::open(fs_, "state")
                          .or_throw()
                          .add({.name = name, .role = Role::kViewer})
                          .or_throw();
    }
  }
  HttpRoutes routes(double rate) {
    const auto ok = [](const HttpRequest&) { return HttpResponse(); };
    return HttpRoutes({{"GET", "/jobs", Role::kViewer, ok},
                       {"GET", "/page", Role::kAnyone, ok},
                       {"GET", "/healthz", Role::kAnyone, ok}},
                      0, {.access = &access_, .rate = rate});
  }
  // 200 for what a handler would answer.
  int ask(const HttpRoutes& routes, const std::string& path, const std::string& peer,
          const std::string& token = "") {
    HttpHead head{.method = "GET", .target = path};
    if (!token.empty()) head.fields.emplace_back("Authorization", "Bearer " + tokens_[token]);
    const HttpPlan plan = routes.plan(head, {.peer = peer, .local = "10.0.0.9"});
    answer_ = plan.answer;
    return plan.route ? 200 : plan.answer.status;
  }

  MemoryFs fs_;
  ManualClock clock_;
  std::map<std::string, std::string> tokens_;
  Access access_{fs_, clock_, {"state", "here"}};
  HttpResponse answer_;
};

TEST_F(HttpRate, ATokenThatAsksTooMuchIsToldWhenToComeAgainAndOthersGoOn) {
  const HttpRoutes r = routes(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(r, "/jobs", "10.0.0.1", "ann"), 200) << i;
  EXPECT_EQ(ask(r, "/jobs", "10.0.0.2", "ann"), 429) << "from wherever";
  EXPECT_EQ(answer_.headers.at("Retry-After"), "1");
  EXPECT_THAT(answer_.body, HasSubstr("the token of ann asks more than 3 times a second"));
  EXPECT_EQ(ask(r, "/healthz", "10.0.0.1", "ann"), 200);
  EXPECT_EQ(ask(r, "/jobs", "10.0.0.1", "bob"), 200);
  EXPECT_EQ(ask(r, "/jobs", "127.0.0.1", "ann"), 429) << "also behind a proxy";
}

TEST_F(HttpRate, AnAddressWithoutATokenTooAlsoWhereItIsRefused) {
  const HttpRoutes r = routes(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(r, "/jobs", "10.0.0.1"), 401) << i;
  EXPECT_EQ(ask(r, "/jobs", "10.0.0.1"), 429);
  EXPECT_EQ(ask(r, "/page", "10.0.0.1"), 429);
  EXPECT_EQ(ask(r, "/jobs", "10.0.0.1", "ann"), 200) << "who has a token is counted by it";
  EXPECT_EQ(ask(r, "/page", "10.0.0.2"), 200);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(ask(r, "/page", "127.0.0.1"), 200) << i;
}

TEST_F(HttpRate, OfZeroIsAnyNumber) {
  const HttpRoutes r = routes(0);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(ask(r, "/jobs", "10.0.0.1", "ann"), 200) << i;
}

}  // namespace
}  // namespace ndtrain::ndp
