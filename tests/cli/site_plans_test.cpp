// What a running Tuner knows of its stores and links, in plans and in jobs that are planned.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

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
  const nlohmann::json& known = json.at("from_tuner");
  EXPECT_EQ(known.at("links").size(), 2U);
  for (const auto& [store, link] : known.at("links").items()) EXPECT_GT(link, 0) << store;
  EXPECT_TRUE(known.at("speeds").empty()) << "no job says them yet";
  EXPECT_TRUE(known.at("kept").empty());

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

TEST_F(SiteTest, PlansGoByWhatStoresHaveAndTookAndByTheFeaturesThatTheTunerKeeps) {
  draw_photos(24);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const std::string http = up_json(2).at("http");
  // The stores extract for both, as features of other types are others.
  for (const char* type : {"f32", "f16"}) {
    const Outcome o = run({"job", "submit", "finetune", "-m", "m.onnx", "-e", "1", "--http", http,
                           "--feature-dtype", type, "--follow"});
    ASSERT_EQ(o.code, 0) << o.err;
  }
  std::vector<std::string> plan = {"plan",   "-m",           "m.onnx", "--photos",
                                   "photos", "--from-tuner", "--http", http};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = plan;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Outcome planned = with({"--json"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  const nlohmann::json json = nlohmann::json::parse(planned.out);
  const nlohmann::json& known = json.at("from_tuner");
  double photos = 0;
  for (const auto& [store, n] : known.at("photos").items()) photos += n.get<double>();
  EXPECT_EQ(photos, 24);
  EXPECT_EQ(known.at("photos").size(), 2U);
  EXPECT_EQ(known.at("speeds").size(), 2U);
  EXPECT_EQ(known.at("enough"), 2) << "each has photos that the other has not";
  ASSERT_EQ(known.at("kept").size(), 1U) << "where training begins";
  EXPECT_EQ(known.at("kept").begin().value(), 24);
  int others = 0;
  for (const nlohmann::json& p : json.at("predictions")) {
    if (p.at("mode") == "ideal") continue;
    EXPECT_EQ(p.at("stores"), 2);
    const bool kept = p.at("mode") == "ndpipe" && p.at("cut") == known.at("kept").begin().key();
    EXPECT_EQ(p.at("bytes_up") < 24 * 100, kept) << "an inventory, and no features: " << p;
    others += !kept;
  }
  EXPECT_GT(others, 0);
  EXPECT_THAT(with({}).out, HasSubstr("features of 24 photos at "));
  EXPECT_THAT(with({"--collection", "garden"}).err,
              HasSubstr("no store of the collection garden is here; 0 are known and away"));
  EXPECT_THAT(with({"--augment", "flip", "--views", "33"}).err, HasSubstr("views 33"));
  EXPECT_THAT(run({"plan", "-m", "m.onnx", "--photos", "photos", "--collection", "garden"}).err,
              HasSubstr("--collection without --from-tuner"));
}

}  // namespace
}  // namespace ndtrain
