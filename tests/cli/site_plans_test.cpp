// What a running Tuner knows of its stores and links, in plans and in jobs that are planned.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "ndp/http/http_client.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;
using testing_cli::SiteTest;

TEST_F(SiteTest, PlansGoByTheStoresAndTheLinksThatTheTunerHasMeasured) {
  draw_photos(24);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const nlohmann::json site = up_json(2);
  const std::string http = site.at("http");
  const auto measured = [&] {
    const nlohmann::json stores =
        nlohmann::json::parse(HttpClient(http).get("/stores").or_throw().body);
    return stores.size() == 2 && std::ranges::all_of(stores, [](const nlohmann::json& s) {
             return s.at("link").is_object() && s.at("link").at("up").get<double>() > 0 &&
                    s.at("link").at("measured").get<int64_t>() > 0;
           });
  };
  ASSERT_TRUE(comes(measured)) << HttpClient(http).get("/stores").or_throw().body;
  const std::vector<std::string> plan = {"plan",         "-m",     "m.onnx", "--photos", "photos",
                                         "--from-tuner", "--http", http,     "--json"};
  const Outcome planned = run(plan);
  ASSERT_EQ(planned.code, 0) << planned.err;
  const nlohmann::json json = nlohmann::json::parse(planned.out);
  EXPECT_EQ(json.at("inputs").at("job/photos").at("value"), 24);
  EXPECT_THAT(json.at("inputs").at("job/bandwidth").at("source").get<std::string>(),
              HasSubstr("measured by the Tuner on 2"));
  const auto shares = json.at("shares").get<std::vector<double>>();
  EXPECT_EQ(shares.size(), 2U) << "as many photos as each has";
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0.0), 24);
  std::set<int> stores;
  for (const nlohmann::json& p : json.at("predictions")) {
    if (p.at("mode") != "ideal") stores.insert(p.at("stores").get<int>());
  }
  EXPECT_EQ(stores, (std::set<int>{1, 2})) << "of these the best is chosen";

  setenv("XDG_CACHE_HOME", at("cache").c_str(), 1);
  const std::vector<std::string> submit = {"job",  "submit",   "finetune", "-m", "m.onnx",
                                           "-e",   "1",        "--http",   http, "--profile",
                                           "auto", "--follow", "--json"};
  for (const char* said : {"measuring cuts", "by what was measured of the model before"}) {
    const Outcome o = run(submit);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.err, HasSubstr(said));
    const nlohmann::json result = nlohmann::json::parse(o.out).at("result");
    EXPECT_THAT(result.at("why").get<std::string>(), HasSubstr("the profile predicts"));
    const nlohmann::json& predicted = result.at("report").at("predicted");
    EXPECT_EQ(predicted.at("by"), "its profile");
    EXPECT_GT(predicted.at("row_bytes"), 0);
  }
  const Outcome by_auto =
      run({"plan", "-m", "m.onnx", "--profile", "auto", "--from-tuner", "--http", http, "--json"});
  EXPECT_EQ(by_auto.code, 0) << by_auto.err;
  EXPECT_THAT(by_auto.err, HasSubstr("by what was measured of the model before"));
  EXPECT_EQ(nlohmann::json::parse(by_auto.out).at("inputs").at("job/photos").at("value"), 24);
  EXPECT_THAT(run({"plan", "-m", "m.onnx", "--profile", "auto", "--photos", "photos"}).err,
              HasSubstr("give one"));
  EXPECT_THAT(
      run({"finetune", "-m", "m.onnx", "-n", "1", "-p", "0", "-o", "fresh", "--profile", "auto"})
          .err,
      HasSubstr("not known before stores are here"));
  unsetenv("XDG_CACHE_HOME");
  EXPECT_THAT(
      run({"job", "submit", "finetune", "-m", "m.onnx", "--http", http, "--profile", "some.json"})
          .err,
      HasSubstr("there is auto"));
  std::vector<std::string> both = submit;
  both.insert(both.end(), {"--auto", "profile.json"});
  EXPECT_THAT(run(both).err, HasSubstr("give one"));
}

}  // namespace
}  // namespace ndtrain
