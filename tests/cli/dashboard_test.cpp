// `ndtrain dashboard`: a link that signs a browser in, opened where there is a screen.
#include <nlohmann/json.hpp>

#include "ndp/http/http_client.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing_cli::Outcome;

class DashboardVerb : public testing_cli::SiteTest {
 protected:
  void SetUp() override {
    draw_photos(2);
    http_ = up_json(1).at("http");
  }
  void TearDown() override {
    for (const char* name : {"NDTRAIN_TOKEN", "DISPLAY", "WAYLAND_DISPLAY"}) unsetenv(name);
    setenv("PATH", path_.c_str(), 1);
    SiteTest::TearDown();
  }
  Outcome dashboard(std::vector<std::string> words) const {
    words.insert(words.begin(), {"dashboard", "--http", http_});
    return run(words);
  }
  // A desktop whose xdg-open writes down what it is given, and ends with `code`.
  void desktop(int code) const {
    real_fs().make_directories(at("desktop")).or_throw();
    publish(real_fs(), at("desktop/xdg-open"),
            "#!/bin/sh\nprintf %s \"$1\" > '" + at("opened") + "'\nexit " + std::to_string(code))
        .or_throw();
    std::filesystem::permissions(at("desktop/xdg-open"), std::filesystem::perms::owner_all);
    setenv("PATH", (at("desktop") + ":" + path_).c_str(), 1);
    setenv("DISPLAY", ":9", 1);
  }

  const std::string path_ = std::getenv("PATH");
  std::string http_;
};

TEST_F(DashboardVerb, NeedsNoLinkWhereNobodyNeedsAToken) {
  const Outcome o = dashboard({"--no-open"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "http://" + http_ + "/\n");
}

TEST_F(DashboardVerb, PrintsALinkThatIsGoodOnce) {
  std::string secret = run({"token", "new", "ann", "--state", "site/tuner"}).out;
  secret.pop_back();
  EXPECT_THAT(dashboard({"--no-open"}).err, HasSubstr("a token is needed"));
  setenv("NDTRAIN_TOKEN", secret.c_str(), 1);
  const Outcome o = dashboard({"--no-open"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("good once, within 60 s"));
  EXPECT_THAT(o.out, MatchesRegex("http://" + http_ + "/login\\?code=[0-9a-f]{64}\n"));
  std::string path = o.out.substr(o.out.find("/login"));
  path.pop_back();
  const HttpClient client(http_);
  EXPECT_EQ(client.get(path).or_throw().status, 303);
  EXPECT_EQ(client.get(path).or_throw().status, 401);
}

TEST_F(DashboardVerb, OpensItWhereThereIsAScreen) {
  desktop(0);
  const Outcome o = dashboard({"--json"});
  EXPECT_EQ(nlohmann::json::parse(o.out).at("opened"), true) << o.err;
  EXPECT_EQ(real_fs().read(at("opened")).or_throw(), "http://" + http_ + "/");
  desktop(3);
  EXPECT_EQ(nlohmann::json::parse(dashboard({"--json"}).out).at("opened"), false);
  std::filesystem::remove(at("opened"));
  EXPECT_EQ(dashboard({"--no-open"}).code, 0);
  unsetenv("DISPLAY");
  EXPECT_EQ(dashboard({}).code, 0);
  EXPECT_FALSE(real_fs().exists(at("opened")));
}

TEST_F(DashboardVerb, SaysWhatBrowsersDoNotReach) {
  const Outcome o = run({"dashboard", "--http", "unix:/run/tuner"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, AllOf(HasSubstr("unix:/run/tuner"), HasSubstr("HOST:PORT")));
}

}  // namespace
}  // namespace ndtrain
