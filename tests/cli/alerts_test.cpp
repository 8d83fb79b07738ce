// The rules for Prometheus speak of what the roles export.
#include <regex>
#include <set>

#include "ndp/http/http_client.h"
#include "tests/cli/site_fixture.h"
#include "tests/support/paths.h"

namespace ndtrain {
using namespace ndp;

namespace {

using AlertsTest = testing_cli::SiteTest;

TEST_F(AlertsTest, EachMetricOfTheAlertsIsOneThatARoleExports) {
  draw_photos(2);
  const std::string tuner = up_json(1).at("http");
  std::string exported;
  ASSERT_TRUE(comes([&] {
    const Json all = Json::parse(HttpClient(tuner).get("/stores").or_throw().body);
    return !all.empty() && !all.at(0).value("http", "").empty();
  }));
  const Json stores = Json::parse(HttpClient(tuner).get("/stores").or_throw().body);
  for (const std::string& role : {tuner, stores.at(0).at("http").get<std::string>()}) {
    exported += HttpClient(role).get("/metrics").or_throw().body;
  }
  const std::string rules =
      real_fs().read(support::source_path("/packaging/ndtrain-alerts.yml")).or_throw();
  const std::regex name("ndtrain_[a-z_]+");
  std::set<std::string> named;
  for (std::sregex_iterator at(rules.begin(), rules.end(), name), end; at != end; ++at) {
    named.insert(at->str());
  }
  EXPECT_GE(named.size(), 5u);
  for (const std::string& metric : named) {
    EXPECT_THAT(exported, testing::HasSubstr("# TYPE " + metric + " ")) << rules;
  }
}

}  // namespace
}  // namespace ndtrain
