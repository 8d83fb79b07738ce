#include "tuner/models/versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/testing/memory_fs.h"
#include "tests/support/files.h"

namespace ndtrain::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PublishedModel model(const std::string& head, uint64_t job = 0) {
  return {.content = sha256("content of " + head),
          .extractor = sha256("extractor"),
          .head = sha256(head),
          .classes = {"cat", "dog"},
          .created = 5,
          .metrics = R"({"top1":0.5})",
          .job = job,
          .photos = sha256("photos")};
}

class VersionsTest : public ::testing::Test {
 protected:
  Versions open() { return Versions(fs_, "versions.json"); }
  std::string refusal() {
    try {
      open();
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }
  MemoryFs fs_;
};

TEST_F(VersionsTest, ComeBackAsTheyWere) {
  Versions v(fs_, "versions.json");
  PublishedModel first = model("a", 3);
  v.add(first, true).or_throw();
  PublishedModel second = model("b", 4);
  second.parent = 1;
  v.add(second, false).or_throw();
  Versions again(fs_, "versions.json");
  ASSERT_EQ(again.all().size(), 2U);
  const PublishedModel b = *again.find(2);
  EXPECT_EQ(b.parent, 1U);
  EXPECT_EQ(b.head, sha256("b"));
  EXPECT_EQ(b.photos, sha256("photos"));
  EXPECT_EQ(b.metrics, R"({"top1":0.5})");
  EXPECT_EQ(b.classes, second.classes);
  EXPECT_EQ(again.of_job(4)->version, 2U);
  EXPECT_EQ(again.in_force(ndp::kDefaultTask)->version, 1U) << "the second one is a candidate only";
  EXPECT_EQ(again.aliases(ndp::kDefaultTask).at(kCandidate), 2U);
}

TEST_F(VersionsTest, KeepWhatPeopleSayOfThem) {
  Versions v(fs_, "versions.json");
  v.add(model("a", 3), true).or_throw();
  EXPECT_EQ(fs_.read("versions.json").or_throw().find("notes"), std::string::npos);
  EXPECT_EQ(v.change_notes(1, {.name = "roses", .note = {}, .add = {"b", "a"}, .remove = {}})
                .or_throw()
                .notes.name,
            "roses");
  v.change_notes(1, {.name = {}, .note = "n", .add = {}, .remove = {"b"}}).or_throw();
  EXPECT_EQ(Versions(fs_, "versions.json").find(1)->notes,
            (ndp::Notes{.name = "roses", .note = "n", .tags = {"a"}}));
  EXPECT_THROW((void)v.change_notes(2, {}), Error);
  EXPECT_THROW((void)v.change_notes(1, {.name = {}, .note = {}, .add = {"a b"}, .remove = {}}),
               Error);
}

// As the program before wrote it.
TEST_F(VersionsTest, OfTheFormerFormatTheNewestIsInForce) {
  const auto entry = [](int version) {
    return R"({"version":)" + std::to_string(version) + R"(,"content":")" +
           to_hex(sha256("content")) + R"(","extractor":")" + to_hex(sha256("extractor")) +
           R"(","head":")" + to_hex(sha256("head" + std::to_string(version))) +
           R"(","classes":["cat"],"created":7,"metrics":{"top1":0.25},"job":)" +
           std::to_string(version) + "}";
  };
  support::write_file(fs_, "versions.json", "[" + entry(1) + "," + entry(2) + "]\n");
  Versions v(fs_, "versions.json");
  EXPECT_EQ(v.in_force(ndp::kDefaultTask)->version, 2U);
  EXPECT_EQ(v.in_force(ndp::kDefaultTask)->parent, 1U);
  EXPECT_EQ(v.find(1)->parent, 0U);
  EXPECT_EQ(v.find(2)->metrics, R"({"top1":0.25})");
  EXPECT_EQ(v.add(model("c"), true).or_throw().version, 3U);
  EXPECT_EQ(Versions(fs_, "versions.json").find(2)->head, sha256("head2"));

  support::write_file(fs_, "versions.json", "[]\n");
  Versions none(fs_, "versions.json");
  EXPECT_FALSE(none.in_force(ndp::kDefaultTask));
  EXPECT_EQ(none.add(model("a"), true).or_throw().version, 1U);
}

TEST_F(VersionsTest, FilesThatAreNotOursAreNamed) {
  support::write_file(fs_, "versions.json", R"({"format":4})");
  EXPECT_THAT(refusal(), HasSubstr("versions.json: has format 4; this program reads up to 3"));
  support::write_file(fs_, "versions.json", "{");
  EXPECT_THAT(refusal(), HasSubstr("versions.json"));
  support::write_file(
      fs_, "versions.json",
      R"({"format":2,"next":2,"aliases":{"production":1},"versions":[],"garbage":[]})");
  EXPECT_THAT(refusal(), HasSubstr("alias production points to no version"));
}

TEST_F(VersionsTest, ANumberIsNeverGivenTwice) {
  Versions v(fs_, "versions.json");
  v.add(model("a"), true).or_throw();
  v.add(model("b"), false).or_throw();
  v.point(kCandidate, 1).or_throw();
  v.remove(2).or_throw();
  EXPECT_EQ(Versions(fs_, "versions.json").add(model("c"), false).or_throw().version, 3U);
}

TEST_F(VersionsTest, WhatAnAliasPointsToStays) {
  Versions v(fs_, "versions.json");
  v.add(model("a"), true).or_throw();
  EXPECT_THROW((void)v.remove(1), Error);
  EXPECT_THROW((void)v.remove(2), Error);
  EXPECT_THROW((void)v.point(kProduction, 2), Error);
  EXPECT_THROW((void)v.point("favourite", 1), Error);
  EXPECT_EQ(v.all().size(), 1U);
}

TEST_F(VersionsTest, AFileThatAnotherVersionHasIsNoGarbage) {
  Versions v(fs_, "versions.json");
  v.add(model("a"), true).or_throw();
  v.add(model("b"), true).or_throw();
  v.remove(1).or_throw();
  EXPECT_THAT(v.garbage(), ElementsAre(sha256("a")));
  EXPECT_THAT(Versions(fs_, "versions.json").garbage(), ElementsAre(sha256("a")));
  v.add(model("a"), false).or_throw();  // trained again, to the same bytes
  EXPECT_TRUE(v.garbage().empty());
  v.point(kCandidate, 2).or_throw();
  v.remove(3).or_throw();
  v.forget_garbage(v.garbage()).or_throw();
  EXPECT_TRUE(Versions(fs_, "versions.json").garbage().empty());
}

TEST_F(VersionsTest, RollingBackFollowsThePromotionsAndNotTheParents) {
  Versions v(fs_, "versions.json");
  for (uint64_t n = 1; n <= 6; ++n) {
    PublishedModel m = model("head " + std::to_string(n));
    m.parent = n - 1;
    v.add(m, n % 2 == 0).or_throw();  // 2, 4 and 6 were in force
  }
  v.point(kProduction, 4).or_throw();
  EXPECT_EQ(v.in_force_before(ndp::kDefaultTask), 6U);
  EXPECT_EQ(Versions(fs_, "versions.json").roll_back(ndp::kDefaultTask).or_throw().version, 6U);
  Versions again(fs_, "versions.json");
  EXPECT_EQ(again.in_force(ndp::kDefaultTask)->version, 6U);
  again.point(kProduction, 6).or_throw();  // it is: no promotion
  EXPECT_EQ(again.roll_back(ndp::kDefaultTask).or_throw().version, 4U)
      << "once more goes back further";
  EXPECT_EQ(again.roll_back(ndp::kDefaultTask).or_throw().version, 2U);
  EXPECT_EQ(again.in_force_before(ndp::kDefaultTask), std::nullopt);
  EXPECT_THROW((void)again.roll_back(ndp::kDefaultTask), Error);
  EXPECT_EQ(again.in_force(ndp::kDefaultTask)->version, 2U);
}

TEST_F(VersionsTest, WhatWasRemovedIsNotRolledBackTo) {
  Versions v(fs_, "versions.json");
  for (const char* head : {"a", "b", "c"}) v.add(model(head), true).or_throw();
  v.remove(2).or_throw();
  try {
    (void)v.roll_back(ndp::kDefaultTask);
    FAIL() << "to what?";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("version 2, which was in force before version 3, was removed"));
  }
  EXPECT_EQ(v.in_force(ndp::kDefaultTask)->version, 3U);
}

// Of each task its own aliases and history; numbers count through all.
TEST_F(VersionsTest, AreInForcePerTask) {
  const auto of = [](const std::string& task, const std::string& head) {
    PublishedModel m = model(head);
    m.task = task;
    return m;
  };
  {
    Versions v(fs_, "versions.json");
    v.add(of("flowers", "a"), true).or_throw();
    v.add(of("birds", "b"), true).or_throw();
    v.add(of("flowers", "c"), true).or_throw();
    v.add(of("birds", "d"), false).or_throw();
    EXPECT_FALSE(v.in_force(ndp::kDefaultTask));
    EXPECT_FALSE(v.in_force("fish"));
  }
  Versions v(fs_, "versions.json");
  EXPECT_THAT(v.tasks(), ElementsAre("birds", "flowers"));
  EXPECT_EQ(v.in_force("flowers")->version, 3U);
  EXPECT_EQ(v.in_force("birds")->version, 2U);
  EXPECT_EQ(v.find(4)->task, "birds");
  EXPECT_EQ(v.aliases("birds").at(kCandidate), 4U);
  EXPECT_THAT(v.aliases_of(3), ElementsAre(kCandidate, kProduction));
  EXPECT_THROW(v.remove(2).or_throw(), Error) << "birds have it in force";
  v.point(kProduction, 4).or_throw();
  EXPECT_EQ(v.in_force_before("birds"), 2U);
  EXPECT_EQ(v.in_force_before("flowers"), 1U);
  EXPECT_EQ(v.roll_back("flowers").or_throw().version, 1U);
  EXPECT_EQ(v.in_force("birds")->version, 4U) << "the other task's stays";
  EXPECT_THROW((void)v.roll_back("fish"), Error);
  EXPECT_THAT(v.tasks(), ElementsAre("birds", "flowers"));
}

// As programs before wrote it: all is of one task.
nlohmann::json of_one_task(nlohmann::json json) {
  const nlohmann::json task = json.at("tasks").at("default");
  json.erase("tasks");
  json.erase("checksum");
  json["format"] = 2;
  json["aliases"] = task.at("aliases");
  json["promotions"] = task.at("promotions");
  for (auto& version : json.at("versions")) version.erase("task");
  return json;
}

TEST_F(VersionsTest, OfOneTaskBecomeThoseOfTheDefaultOne) {
  {
    Versions v(fs_, "versions.json");
    v.add(model("a"), true).or_throw();
    v.add(model("b"), true).or_throw();
    v.add(model("c"), false).or_throw();
  }
  const auto former = of_one_task(nlohmann::json::parse(fs_.read("versions.json").or_throw()));
  support::write_file(fs_, "versions.json", former.dump());
  Versions v(fs_, "versions.json");
  EXPECT_EQ(v.in_force(ndp::kDefaultTask)->version, 2U);
  EXPECT_EQ(v.aliases(ndp::kDefaultTask).at(kCandidate), 3U);
  EXPECT_EQ(v.find(3)->task, ndp::kDefaultTask);
  EXPECT_EQ(v.roll_back(ndp::kDefaultTask).or_throw().version, 1U);
}

TEST_F(VersionsTest, AnAliasIsOfItsTask) {
  Versions(fs_, "versions.json").add(model("a"), true).or_throw();
  auto json = nlohmann::json::parse(fs_.read("versions.json").or_throw());
  json.erase("checksum");
  json["tasks"]["birds"] = json["tasks"]["default"];
  support::write_file(fs_, "versions.json", json.dump());
  EXPECT_THAT(refusal(), HasSubstr("of the task birds points to version 1 of the task default"));
}

TEST_F(VersionsTest, InAFileWithoutAHistoryParentsWereInForceBefore) {
  {
    Versions v(fs_, "versions.json");
    for (uint64_t n = 1; n <= 4; ++n) {
      PublishedModel m = model("head " + std::to_string(n));
      m.parent = n == 4 ? 2 : n - 1;
      v.add(m, true).or_throw();
    }
  }
  auto json = of_one_task(nlohmann::json::parse(fs_.read("versions.json").or_throw()));
  EXPECT_EQ(json.at("promotions"), (std::vector<uint64_t>{1, 2, 3, 4}));
  json.erase("promotions");
  support::write_file(fs_, "versions.json", json.dump());
  Versions v(fs_, "versions.json");
  EXPECT_EQ(v.roll_back(ndp::kDefaultTask).or_throw().version, 2U);
  EXPECT_EQ(v.roll_back(ndp::kDefaultTask).or_throw().version, 1U);
  json["promotions"] = {4, 3};
  support::write_file(fs_, "versions.json", json.dump());
  EXPECT_THAT(refusal(), HasSubstr("do not end with the version that is production"));
}

TEST_F(VersionsTest, TheHistoryHasTheNewestPromotions) {
  for (const size_t more : {0, 1, 2}) {
    MemoryFs fs;
    Versions v(fs, "versions.json");
    v.add(model("a"), true).or_throw();
    v.add(model("b"), true).or_throw();
    const size_t promotions = Versions::kHistory - 1 + more;
    for (size_t n = 2; n < promotions; ++n) v.point(kProduction, n % 2 + 1).or_throw();
    const auto json = nlohmann::json::parse(fs.read("versions.json").or_throw());
    const auto kept = json.at("tasks").at("default").at("promotions");
    EXPECT_EQ(kept.size(), std::min(promotions, Versions::kHistory));
    EXPECT_EQ(kept.back(), v.in_force(ndp::kDefaultTask)->version);
  }
}

TEST_F(VersionsTest, OfATaskThatIsTakenAwayAreGoneAndSoAreFilesThatNoOtherHas) {
  Versions v(fs_, "versions.json");
  PublishedModel mood = model("b");
  mood.task = "mood";
  v.add(model("a"), true).or_throw();
  v.add(mood, true).or_throw();
  mood.head = sha256("c");
  v.add(mood, false).or_throw();
  EXPECT_FALSE(v.is_gone("mood"));
  v.remove_task("mood", 100).or_throw();
  for (int i = 0; i < 2; ++i, v.forget_garbage(std::vector<Digest>()).or_throw()) {
    const Versions again = open();
    for (const Versions* of : {&std::as_const(v), &again}) {
      EXPECT_THAT(of->tasks(), ElementsAre("default"));
      EXPECT_EQ(of->all().size(), 1U);
      EXPECT_EQ(of->in_force("mood"), std::nullopt);
      EXPECT_TRUE(of->collections("mood").empty());
      EXPECT_THAT(of->garbage(), ElementsAre(sha256("b"), sha256("c")));
      EXPECT_TRUE(of->is_gone("mood"));
      EXPECT_FALSE(of->is_gone("default"));
      EXPECT_EQ(of->removed("mood")->time, 100);
      EXPECT_TRUE(of->removed("mood")->labels);
      EXPECT_TRUE(of->removed("mood")->had(3));
      EXPECT_FALSE(of->removed("mood")->had(4));
      EXPECT_FALSE(of->removed("mood")->had(0));
    }
  }
  v.labels_are_gone("mood").or_throw();
  EXPECT_FALSE(open().removed("mood")->labels);
  EXPECT_EQ(v.add(mood, true).or_throw().version, 4U);  // begun anew
  EXPECT_FALSE(open().is_gone("mood"));
  EXPECT_EQ(open().removed("mood")->last, 3U) << "which were before is known still";
  EXPECT_THAT(open().garbage(), ElementsAre(sha256("b")));
}

TEST_F(VersionsTest, OnAFullDiskNothingChanges) {
  Versions v(fs_, "versions.json");
  v.add(model("a"), true).or_throw();
  v.add(model("b"), false).or_throw();
  fs_.set_capacity(0);
  EXPECT_FALSE(v.point(kProduction, 2).ok());
  EXPECT_FALSE(v.add(model("c"), true).ok());
  EXPECT_EQ(v.in_force_before(ndp::kDefaultTask), std::nullopt);
  EXPECT_EQ(v.in_force(ndp::kDefaultTask)->version, 1U);
  EXPECT_EQ(v.all().size(), 2U);
}

}  // namespace
}  // namespace ndtrain::tuner
