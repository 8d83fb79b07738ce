#include "tuner/plan/plan_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/testing/memory_fs.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "tests/support/replaced.h"
#include "tuner/plan/planner.h"

namespace ndtrain::tuner {
namespace {

using support::replaced;
using ::testing::HasSubstr;

std::string number(const std::string& name, const std::string& value) {
  return "\"" + name + "\": {\"value\": " + value + ", \"source\": \"measured\"}";
}

// With what is required, and more of the store.
std::string profile_text(const std::string& store = "") {
  std::string cut = "{\"name\": \"late\"";
  for (const char* name :
       {"feature_bytes", "extractor_bytes", "head_bytes", "extract_s", "train_s", "evaluate_s"}) {
    cut += ", " + number(name, "0.5");
  }
  return "{\"format\": 1, \"store\": {" + number("cores", "2") + store + "}, \"tuner\": {" +
         number("cores", "4") + "}, \"photo\": {" + number("bytes", "1e5") + ", " +
         number("prepare_s", "0.002") + "}, \"cuts\": [" + cut + "}]}";
}

std::string profile_refusal(const std::string& text) {
  try {
    parse_profile(text, "p.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(PlanProfile, EveryInputComesBackAsItWasWritten) {
  Profile p{.name = "all"};
  p.inputs.costs.plain_store.emplace();
  p.inputs.costs.plain_tuner.emplace();
  p.inputs.costs.cuts = {{.name = "a/b"}, {.name = "c"}};
  double value = 0.1;
  for (const NamedInput& input : named_inputs(p)) {
    p.set(*input.value, value, "source of " + input.path);
    value = value * 1.37 + 1e-7;
  }
  const std::string text = to_json(p);
  Profile back = parse_profile(text, "p.json");
  EXPECT_EQ(back.sources, p.sources);
  EXPECT_EQ(back.name, "all");
  EXPECT_EQ(back.inputs.costs.cuts[0].name, "a/b");
  const auto was = named_inputs(p), is = named_inputs(back);
  ASSERT_EQ(was.size(), is.size());
  EXPECT_GT(was.size(), 50u);
  for (size_t i = 0; i < was.size(); ++i) EXPECT_EQ(*was[i].value, *is[i].value) << was[i].path;
  EXPECT_EQ(to_json(back), text);
}

TEST(PlanProfile, WhatIsNotSaidHasItsDefault) {
  const Profile p = parse_profile(profile_text(), "p.json");
  EXPECT_EQ(p.inputs.costs.store.cores, 2);
  EXPECT_EQ(p.inputs.costs.store.core_speed, 1);
  EXPECT_EQ(p.inputs.costs.store.dollars_per_hour, 0);
  EXPECT_EQ(p.inputs.epochs, 15);
  EXPECT_FALSE(p.inputs.costs.plain_tuner.has_value());
  EXPECT_EQ(p.sources.at("photo/bytes"), "measured");
  EXPECT_FALSE(p.sources.contains("store/core_speed"));
}

TEST(PlanProfile, AnInputWithoutASourceIsNotWritten) {
  Profile p = parse_profile(profile_text(), "p.json");
  p.inputs.costs.store.busy_watts = 70;
  EXPECT_THROW(to_json(p), Error);
  p.set(p.inputs.costs.store.busy_watts, 70, "RAPL");
  EXPECT_THAT(to_json(p), HasSubstr("RAPL"));
}

TEST(PlanProfile, BadProfilesAreRefusedNamingFileAndInput) {
  const std::string good = profile_text();
  ASSERT_EQ(profile_refusal(good), "accepted");
  EXPECT_THAT(profile_refusal("{\"format\": 1,"), HasSubstr("profile p.json is not JSON"));
  EXPECT_THAT(profile_refusal(""), HasSubstr("is not JSON"));
  EXPECT_THAT(profile_refusal("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(profile_refusal("{}"), HasSubstr("has no \"format\""));
  EXPECT_THAT(profile_refusal(replaced(good, "\"format\": 1", "\"format\": 2")),
              HasSubstr("format 2"));
  EXPECT_THAT(profile_refusal(replaced(good, "\"prepare_s\"", "\"prepare\"")),
              HasSubstr("photo/prepare"));
  EXPECT_THAT(profile_refusal(replaced(good, "\"train_s\"", "\"training\"")),
              HasSubstr("lacks cuts/0/train_s"));
  EXPECT_THAT(profile_refusal(profile_text(", " + number("core", "1"))),
              HasSubstr("store/core, which is no input"));
  EXPECT_THAT(profile_refusal(profile_text(", " + number("busy_watts", "-1"))),
              HasSubstr("store/busy_watts = -1"));
  EXPECT_THAT(profile_refusal(profile_text(", " + number("busy_watts", "1e999"))),
              HasSubstr("p.json"));
  EXPECT_THAT(profile_refusal(profile_text(", " + number("busy_watts", "\"70\""))),
              HasSubstr("not a number"));
  EXPECT_THAT(profile_refusal(profile_text(", \"busy_watts\": 70")),
              HasSubstr("which is not {\"value\""));
  EXPECT_THAT(profile_refusal(profile_text(", \"busy_watts\": {\"value\": 70}")),
              HasSubstr("the source of store/busy_watts"));
  EXPECT_THAT(profile_refusal(profile_text(", \"busy_watts\": {\"value\": 70, \"source\": \"\"}")),
              HasSubstr("store/busy_watts/source"));
  EXPECT_THAT(profile_refusal(replaced(good, "\"cuts\": [", "\"cuts\": 3, \"x\": [")),
              HasSubstr("not a list"));
  EXPECT_THAT(profile_refusal(replaced(good, "\"name\": \"late\"", "\"named\": \"late\"")),
              HasSubstr("no name for cuts/0"));
}

TEST(PlanProfile, FilesBeyondTheLimitAreRefused) {
  const std::string good = profile_text();
  const auto padded = [&](int64_t size) {
    return good + std::string(static_cast<size_t>(size) - good.size(), ' ');
  };
  EXPECT_EQ(profile_refusal(padded(limits::kProfileFile - 1)), "accepted");
  EXPECT_EQ(profile_refusal(padded(limits::kProfileFile)), "accepted");
  EXPECT_THAT(profile_refusal(padded(limits::kProfileFile + 1)), HasSubstr("at most"));
}

TEST(PlanProfile, FilesAreReadThroughTheFileSystem) {
  MemoryFs fs;
  support::write_file(fs, "/p/one.json", profile_text());
  EXPECT_EQ(load_profile(fs, "/p/one.json").inputs.costs.tuner.cores, 4);
  try {
    load_profile(fs, "/p/two.json");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("/p/two.json"));
  }
}

TEST(PlanProfile, ThePublishedHardwareIsReadAndEveryInputHasASource) {
  Profile p = load_profile(real_fs(), support::source_path("/examples/plan_published.json"));
  for (const NamedInput& input : named_inputs(p)) {
    EXPECT_TRUE(!input.required || p.sources.contains(input.path)) << input.path;
  }
  EXPECT_EQ(p.inputs.costs.store.dollars_per_hour, 1.204);
  EXPECT_EQ(p.inputs.costs.tuner.dollars_per_hour, 3.06);
  EXPECT_EQ(p.inputs.costs.plain_tuner.value().dollars_per_hour, 12.24);
  EXPECT_EQ(p.inputs.costs.plain_store.value().dollars_per_hour, 0.688);
  EXPECT_EQ(p.inputs.photos, 1.2e6);
  EXPECT_NEAR(1 / p.inputs.costs.cuts.back().extract_s, 1913, 0.5);
  EXPECT_NO_THROW(predict_all(p.inputs));
  EXPECT_EQ(to_json(p), to_json(parse_profile(to_json(p), "again")));
}

}  // namespace
}  // namespace ndtrain::tuner
