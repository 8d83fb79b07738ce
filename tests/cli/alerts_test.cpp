// The rules for Prometheus and the board for Grafana speak of what the roles export.
#include <cstdlib>
#include <regex>
#include <set>

#include "ndp/http/certificate_metrics.h"
#include "ndp/http/http_client.h"
#include "tests/cli/site_fixture.h"
#include "tests/support/paths.h"
#include "tests/wire/authority.h"

namespace ndtrain {
using namespace ndp;

namespace {

std::string packaged(const std::string& name) {
  return real_fs().read(support::source_path("/packaging/" + name)).or_throw();
}

std::set<std::string> metrics_in(const std::string& text) {
  const std::regex name("ndtrain_[a-z_]+");
  std::set<std::string> named;
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) {
    named.insert(at->str());
  }
  return named;
}

class AlertsTest : public testing_cli::SiteTest {
 protected:
  // What a Tuner and a PipeStore export that have done a job, also where they have certificates.
  std::string exported() {
    draw_photos(2);
    EXPECT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
    const nlohmann::json site = up_json(1);
    const std::string tuner = site.at("http");
    (void)ask(site, {"job", "submit", "relabel", "-m", "m.onnx", "--follow"});
    const auto stores = [&] {
      return nlohmann::json::parse(HttpClient(tuner).get("/stores").or_throw().body);
    };
    EXPECT_TRUE(
        comes([&] { return !stores().empty() && !stores().at(0).value("http", "").empty(); }));
    const std::string store = stores().at(0).at("http");
    EXPECT_TRUE(comes([&] {
      const std::string said = HttpClient(store).get("/metrics").or_throw().body;
      return said.find("ndtrain_stage_seconds_total") != std::string::npos;
    }));
    MetricsText certificates;
    add_certificate(certificates, "link", support::Authority().own.certificate, false);
    std::string all = certificates.text();
    for (const std::string& role : {tuner, store}) {
      all += HttpClient(role).get("/metrics").or_throw().body;
    }
    for (const char* kind : {"rows", "models", "photos"}) {
      const std::regex moved("ndtrain_bytes_total\\{kind=\"" + std::string(kind) + "\"\\} [1-9]");
      EXPECT_TRUE(std::regex_search(all, moved)) << kind << "\n" << all;
    }
    return all;
  }
};

TEST_F(AlertsTest, EachMetricOfTheAlertsAndOfTheBoardIsOneThatARoleExports) {
  const std::string all = exported();
  for (const char* file : {"ndtrain-alerts.yml", "ndtrain-grafana.json"}) {
    const std::set<std::string> named = metrics_in(packaged(file));
    EXPECT_GE(named.size(), 5u);
    for (const std::string& metric : named) {
      EXPECT_THAT(all, ::testing::HasSubstr("# TYPE " + metric + " ")) << file;
    }
  }
}

// What Grafana wants of a board that is imported.
TEST(Board, EachOfItsPanelsAsksTheChosenDataSource) {
  const nlohmann::json board = nlohmann::json::parse(packaged("ndtrain-grafana.json"));
  EXPECT_EQ(board.at("templating").at("list").at(0).at("type"), "datasource");
  std::set<int> ids;
  std::set<std::pair<int, int>> places;
  for (const nlohmann::json& panel : board.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << panel;
    const nlohmann::json& at = panel.at("gridPos");
    EXPECT_TRUE(places.insert({at.at("x").get<int>(), at.at("y").get<int>()}).second) << panel;
    EXPECT_EQ(panel.at("datasource").at("uid"), "${datasource}");
    EXPECT_FALSE(panel.at("targets").empty());
    for (const nlohmann::json& target : panel.at("targets")) {
      EXPECT_FALSE(metrics_in(target.at("expr").get<std::string>()).empty()) << target;
    }
  }
  EXPECT_GE(ids.size(), 10u);
}

// By Prometheus' own tool, also of the board's queries, which have the same language.
TEST_F(AlertsTest, PrometheusTakesTheRulesAndTheQueries) {
  if (std::system("promtool --version > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "there is no promtool (Debian's package prometheus)";
  }
  publish(real_fs(), at("alerts.yml"), packaged("ndtrain-alerts.yml")).or_throw();
  std::string rules = "groups:\n  - name: board\n    rules:\n";
  int n = 0;
  for (const nlohmann::json& panel :
       nlohmann::json::parse(packaged("ndtrain-grafana.json")).at("panels")) {
    for (const nlohmann::json& target : panel.at("targets")) {
      rules += "      - record: board:query" + std::to_string(++n) +
               "\n        expr: " + target.at("expr").dump() + "\n";
    }
  }
  publish(real_fs(), at("board.yml"), rules).or_throw();
  for (const std::string file : {"alerts.yml", "board.yml"}) {
    const std::string said = at(file + ".said");
    EXPECT_EQ(std::system(("promtool check rules " + at(file) + " > " + said + " 2>&1").c_str()), 0)
        << real_fs().read(said).or_throw();
  }
}

}  // namespace
}  // namespace ndtrain
