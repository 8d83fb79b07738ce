#include "ndp/rados/osd_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rados/fake_pool.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OsdMapTest : public ::testing::Test {
 protected:
  MonCommand command() {
    return [this](const std::string& c) { return pool_.command(c); };
  }

  ndtrain::testing::FakeCluster cluster_;
  ndtrain::testing::FakePool pool_{cluster_};
};

TEST_F(OsdMapTest, SaysWhoIsPrimaryOfEachGroup) {
  cluster_.set_primary(1, -1);
  const OsdMap map = read_osd_map(command(), "photos", {"127.0.0.1", "203.0.113.9"}).or_throw();
  EXPECT_EQ(map.epoch, 6U);
  EXPECT_THAT(map.primary, ElementsAre(0, -1, 2, 0, 1, 2, 0, 1));
  EXPECT_THAT(map.at_addresses, ElementsAre(0));
  EXPECT_EQ(osd_epoch(command()).or_throw(), 6U);
  EXPECT_EQ(cluster_.asked["osd map"], 8) << "one for a group, however many objects there are";
}

TEST_F(OsdMapTest, OsdsThatAreDownAreAtNoAddress) {
  cluster_.down = {1};
  const OsdMap map = read_osd_map(command(), "photos", {"203.0.113.1", "203.0.113.2"}).or_throw();
  EXPECT_THAT(map.at_addresses, ElementsAre(2));
}

TEST_F(OsdMapTest, APoolThatIsNotThereAndOneOfAnotherHashAreRefused) {
  EXPECT_EQ(read_osd_map(command(), "other", {}).status().code(), Code::kNotFound);
  cluster_.object_hash = 1;
  EXPECT_EQ(read_osd_map(command(), "photos", {}).status().code(), Code::kUnsupported);
}

// Who takes an object for another group's would read it over the network, or not at all.
TEST_F(OsdMapTest, AGroupThatIsNotWhereWeTakeItToBeIsAnError) {
  const MonCommand other = [this](const std::string& c) -> Result<std::string> {
    nlohmann::json answer = nlohmann::json::parse(pool_.command(c).or_throw());
    if (answer.contains("pgid")) answer["pgid"] = "7.3";
    return answer.dump();
  };
  const Status s = read_osd_map(other, "photos", {}).status();
  EXPECT_EQ(s.code(), Code::kUnavailable);
  EXPECT_THAT(s.message(), HasSubstr("placement group 7.3, not in 7.0"));
}

TEST_F(OsdMapTest, AnswersThatAreNoneAreNamed) {
  for (const char* const answer : {"", "{", "[]", "{}", R"({"epoch":"x"})"}) {
    const MonCommand broken = [&](const std::string&) -> Result<std::string> { return {answer}; };
    const Status epoch = osd_epoch(broken).status();
    EXPECT_EQ(epoch.code(), Code::kCorrupt) << answer;
    EXPECT_THAT(epoch.message(), HasSubstr("'osd stat'"));
    EXPECT_EQ(read_osd_map(broken, "photos", {}).status().code(), Code::kCorrupt) << answer;
  }
  cluster_.away = Status(Code::kUnavailable, "timed out");
  EXPECT_EQ(osd_epoch(command()).status().code(), Code::kUnavailable);
}

TEST_F(OsdMapTest, ThisHostHasAnAddress) {
  EXPECT_THAT(host_addresses(), ::testing::Contains("127.0.0.1"));
}

}  // namespace
}  // namespace ndtrain::ndp
