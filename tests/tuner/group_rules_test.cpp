// What a Tuner that leads says of a training to the members.
#include "tuner/group/group_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "framework/core/coding.h"
#include "tuner/group/group_rows.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(GroupRules, AreThoseThatWereSaid) {
  GroupRules said{.trainable = {"fc.w", "fc.b"}, .compute = DType::kBF16, .rows = sha256("rows")};
  said.spec.seed = 7;
  const GroupRules heard = parse_rules(rules_text(said));
  EXPECT_EQ(heard.spec.text(), said.spec.text());
  EXPECT_EQ(heard.trainable, said.trainable);
  EXPECT_EQ(heard.compute, said.compute);
  EXPECT_EQ(heard.rows, said.rows);
}

TEST(GroupRules, ThatAreNoneAreRefused) {
  const std::string sound = rules_text({});
  for (const std::string& bad :
       {std::string(), std::string("[]"), std::string("{}"), sound.substr(1), std::string(100, '['),
        std::string(R"({"spec": 1, "trainable": 2})")}) {
    EXPECT_THAT([&] { (void)parse_rules(bad); },
                ThrowsMessage<Error>(HasSubstr("what the Tuner says of the training is damaged")))
        << bad;
  }
}

std::string described(const std::string& photo, int64_t label, double loss, double draw) {
  const Digest digest = sha256(photo);
  std::string all(reinterpret_cast<const char*>(digest.data()), digest.size());
  all.resize(all.size() + 3 * sizeof(uint64_t));
  auto* at = reinterpret_cast<std::byte*>(all.data()) + digest.size();
  store_le(at, label);
  store_le(at + sizeof(uint64_t), std::bit_cast<uint64_t>(loss));
  store_le(at + 2 * sizeof(uint64_t), std::bit_cast<uint64_t>(draw));
  return all;
}

TEST(DescribedRows, AreThoseThatWereDescribed) {
  const DescribedRows rows = described_rows(described("a", 3, 1, 0) + described("b", 0, 0.5, 2));
  EXPECT_THAT(rows.photos, ElementsAre(sha256("a"), sha256("b")));
  EXPECT_THAT(rows.labels, ElementsAre(3, 0));
  EXPECT_THAT(rows.weights.loss, ElementsAre(1, 0.5));
  EXPECT_THAT(rows.weights.draw, ElementsAre(0, 2));
  EXPECT_TRUE(described_rows("").photos.empty());
}

TEST(DescribedRows, ThatCannotBeAreRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::string sound = described("a", 3, 1, 0);
  for (const auto& [bad, why] : std::vector<std::pair<std::string, std::string>>{
           {sound.substr(1), "the Tuner's list of rows is damaged"},
           {sound + "a", "the Tuner's list of rows is damaged"},
           {sound + described("b", -1, 1, 0), "row 1 of the Tuner has label -1"},
           {described("b", 0, kNan, 0), "row 0 of the Tuner has a weight of nan"},
           {described("b", 0, -1, 0), "row 0 of the Tuner has a weight of -1"},
           {described("b", 0, 1, kInf), "row 0 of the Tuner has a weight of inf"}}) {
    EXPECT_THAT([&] { (void)described_rows(bad); }, ThrowsMessage<Error>(HasSubstr(why)));
  }
}

}  // namespace
}  // namespace ndtrain::tuner
