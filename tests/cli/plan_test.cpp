// ndtrain plan as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/program_fixture.h"
#include "tests/support/paths.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;

class PlanProgram : public testing_cli::ProgramTest {
 protected:
  // Measures once; the tests go on from the profile.
  Outcome measure(std::vector<std::string> more = {}) const {
    draw_photos(20);
    EXPECT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
    std::vector<std::string> words = {
        "plan",     "-m",  "m.onnx",      "--photos", "photos",         "-j",          "1",
        "--stores", "1,2", "--bandwidth", "20Mbit",   "--save-profile", "profile.json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  nlohmann::json planned(std::vector<std::string> words) const {
    words.insert(words.begin(), {"plan", "--json"});
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out);
  }
  const std::string published_ = support::source_path("/examples/plan_published.json");
};

TEST_F(PlanProgram, MeasuresAModelAndPhotosAndSavesWhatItMeasured) {
  const Outcome o = measure();
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("best by makespan: "));
  EXPECT_THAT(o.out, HasSubstr("is the bottleneck: busy "));
  EXPECT_THAT(o.out, HasSubstr("(a bound: no network)"));
  const nlohmann::json again = planned({"--profile", "profile.json", "--stores", "1,2"});
  EXPECT_EQ(again.at("inputs").at("job/photos").at("value"), 20);
  EXPECT_EQ(again.at("inputs").at("job/bandwidth").at("value"), 2.5e6);
  EXPECT_THAT(o.out,
              HasSubstr("best by makespan: " + again.at("best").at("mode").get<std::string>()));
  EXPECT_EQ(again.at("best"), again.at("predictions").at(0));
  for (const nlohmann::json& p : again.at("predictions")) EXPECT_TRUE(p.at("dollars").is_null());
}

TEST_F(PlanProgram, FlagsGoOverTheProfile) {
  const nlohmann::json slow =
      planned({"--profile", published_, "--stores", "4", "--bandwidth", "1G"});
  const nlohmann::json fast = planned({"--profile", published_, "--stores", "4", "--bandwidth",
                                       "2.5 Gbit/s", "--photo-count", "600000", "-e", "10"});
  EXPECT_EQ(slow.at("inputs").at("job/bandwidth").at("value"), 1e9 / 8);
  EXPECT_EQ(fast.at("inputs").at("job/bandwidth").at("value"), 2.5e9 / 8);
  EXPECT_EQ(fast.at("inputs").at("job/bandwidth").at("source"), "given: --bandwidth");
  EXPECT_EQ(fast.at("inputs").at("job/photos").at("value"), 600000);
  EXPECT_LT(fast.at("best").at("makespan_s"), slow.at("best").at("makespan_s"));
  for (const char* rate : {"20000000", "20M", "20mbit", "20Mbps", "0.02G", "20 Mbit/s"}) {
    const nlohmann::json p = planned({"--profile", published_, "--bandwidth", rate});
    EXPECT_DOUBLE_EQ(p.at("inputs").at("job/bandwidth").at("value").get<double>(), 2.5e6) << rate;
  }
  const nlohmann::json cheap =
      planned({"--profile", published_, "--stores", "1-12", "--minimise", "cost"});
  EXPECT_EQ(cheap.at("predictions").size(), 12u * 3 * (2 + 3) + 3);
  double last = 0;
  for (const nlohmann::json& p : cheap.at("predictions")) {
    if (p.at("mode") == "ideal") continue;
    EXPECT_GE(p.at("dollars").get<double>(), last);
    last = p.at("dollars").get<double>();
  }
}

TEST_F(PlanProgram, ViewsAreCountedAndAreOfOneMode) {
  const std::vector<std::string> words = {"--profile", published_,    "--stores",
                                          "4",         "--val-split", "0.2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const auto ndpipe = [](const nlohmann::json& plan) {
    for (const nlohmann::json& p : plan.at("predictions")) {
      if (p.at("mode") == "ndpipe") return p;
    }
    return nlohmann::json();
  };
  const nlohmann::json plain = ndpipe(planned(words)),
                       viewed = planned(with({"--augment", "crop,flip", "--views", "4"}));
  EXPECT_NEAR(ndpipe(viewed).at("disk_bytes").get<double>(),
              plain.at("disk_bytes").get<double>() * (0.2 + 0.8 * 4), 1);
  EXPECT_GT(ndpipe(viewed).at("makespan_s"), plain.at("makespan_s"));
  for (const nlohmann::json& p : viewed.at("predictions")) {
    EXPECT_TRUE(p.at("mode") == "ndpipe" || p.at("mode") == "ideal") << p;
  }
  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    more.insert(more.begin(), "plan");
    const Outcome o = run(more);
    EXPECT_EQ(o.code, 2) << o.err;
    return o.err;
  };
  EXPECT_THAT(refused({"--views", "4"}), HasSubstr("would be alike"));
  EXPECT_THAT(refused({"--augment", "flip", "--views", "4", "--sweep"}),
              HasSubstr("--sweep with --views"));
}

TEST_F(PlanProgram, TheSweepShowsWhereThePublishedGainsLieAndWhatTheyRestOn) {
  const Outcome o = run({"plan", "--profile", published_, "--sweep"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("1.8 x faster (NDPipe, ASPLOS'24) is reached"));
  EXPECT_THAT(o.out, HasSubstr("1.7 x cheaper (NDPipe, ASPLOS'24) is reached"));
  const nlohmann::json json =
      planned({"--profile", published_, "--sweep", "--stores", "4,8", "--bandwidth", "1G,10G"});
  EXPECT_EQ(json.at("sweep").size(), 4u);
  const nlohmann::json profile = nlohmann::json::parse(real_fs().read(published_).or_throw());
  std::set<std::string> varied;
  for (const nlohmann::json& s : json.at("sensitivity"))
    varied.insert(s.at("input").get<std::string>());
  for (const auto& [section, inputs] : profile.items()) {
    if (!inputs.is_object()) continue;
    for (const auto& [name, input] : inputs.items()) {
      const std::string path = section + "/" + name, source = input.at("source");
      EXPECT_THAT(o.out, HasSubstr(path));
      // Told to the sweep here, so not assumed any more.
      const bool assumed = source.starts_with("assumed") && path != "job/bandwidth";
      EXPECT_EQ(varied.contains(path), assumed) << path;
    }
  }
}

TEST_F(PlanProgram, RefusesWhatASubmittedJobIsRefusedFor) {
  const std::vector<std::pair<std::string, std::string>> flags = {
      {"--epochs", "2.5"},    {"--epochs", "1000001"}, {"--val-split", "1"},
      {"--batch", "1048577"}, {"--head", "tail"},      {"--feature-dtype", "f8"},
  };
  for (const auto& [flag, value] : flags) {
    const Outcome o = run({"plan", "--profile", published_, flag, value});
    EXPECT_EQ(o.code, 2) << flag << " " << value << ": " << o.err << o.out;
    EXPECT_THAT(o.err, HasSubstr(value)) << flag;
  }
  for (const auto& [flag, value] : flags) {
    if (flag == "--feature-dtype") continue;
    const Outcome o = run({"plan", "--profile", published_, flag, value});
    EXPECT_THAT(o.err, HasSubstr("job: ")) << "as job submit says it";
  }
}

TEST_F(PlanProgram, SaysWhatIsWrongWithWhatItWasGiven) {
  const auto refused = [&](std::vector<std::string> words, int code, const std::string& what) {
    words.insert(words.begin(), "plan");
    const Outcome o = run(words);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_THAT(o.err, HasSubstr(what));
  };
  refused({}, 2, "--model is missing");
  refused({"-m", "m.onnx"}, 2, "--photos DIR");
  draw_photos(4);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  refused({"-m", "m.onnx", "--photos", "photos", "--freeze", "none", "--bandwidth", "20M"}, 1,
          "a Tuner takes no such fine-tuning; another --freeze, or ndtrain train");
  refused({"--profile", "nowhere.json"}, 1, "nowhere.json");
  refused({"--profile", published_, "-m", "m.onnx"}, 2, "give one");
  refused({"--profile", published_, "--bandwidth", "20 apples"}, 2, "20 apples");
  refused({"--profile", published_, "--bandwidth", "-5M"}, 2, "-5M");
  refused({"--profile", published_, "--bandwidth", "5MB/s"}, 2, "bits per second");
  refused({"--profile", published_, "--stores", "0"}, 2, "--stores 0");
  refused({"--profile", published_, "--stores", "4-2"}, 2, "4-2");
  refused({"--profile", published_, "--runs", "1,x"}, 2, "1,x");
  refused({"--profile", published_, "--stores", "2", "--shares", "1,2,3"}, 1, "3 shares");
  refused({"--profile", published_, "--minimise", "speed"}, 1, "speed");
  refused({"--profile", published_, "--minimise", "energy"}, 1, "busy_watts");
  publish(real_fs(), at("bad.json"), "{\"format\": 1, \"store\": {}}").or_throw();
  refused({"--profile", "bad.json"}, 1, "bad.json has no \"cuts\"");
}

TEST_F(PlanProgram, GoesByTheVolumeOfTheTunersState) {
  const Outcome o =
      run({"plan", "--profile", published_, "--photo-count", "1e15", "--state", at(".")});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("no cut's features fit what the Tuner's disk has for them"));
  EXPECT_EQ(run({"plan", "--profile", published_, "--photo-count", "1e15"}).code, 0);
  EXPECT_EQ(run({"plan", "--profile", published_, "--state", at("nowhere")}).code, 1);
}

TEST_F(PlanProgram, WithoutADirectoryPhotosAreDrawn) {
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const nlohmann::json json =
      planned({"-m", "m.onnx", "-j", "1", "--photo-count", "1000", "--photo-bytes", "20000",
               "--stores", "2", "--bandwidth", "1Gbit"});
  EXPECT_EQ(json.at("inputs").at("photo/bytes").at("value"), 20000);
  EXPECT_EQ(json.at("inputs").at("job/photos").at("value"), 1000);
}

}  // namespace
}  // namespace ndtrain
