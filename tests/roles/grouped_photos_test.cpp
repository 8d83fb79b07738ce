// A fine-tuning over PipeStores that keeps photos which look the same on one side of the split
// gives what one machine gives that has them all.
#include "ndp/photos/decode.h"
#include "tests/roles/one_machine_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class GroupedJob : public testing::OneMachine {
 protected:
  // Of photos of each class there are copies of other bytes.
  void SetUp() override {
    OneMachine::SetUp();
    for (int i = 0; i < 8 * kClasses; ++i) {
      const std::string folder = at("photos/c" + std::to_string(i % kClasses) + "/");
      const std::string name = std::to_string(i) + ".jpg";
      const std::string file = real_fs().read(folder + name).or_throw();
      Image image = decode(std::as_bytes(std::span(file))).or_throw().image;
      image.row(0)[0] = static_cast<uint8_t>(image.row(0)[0] < 128 ? 255 : 0);
      publish(real_fs(), folder + "copy of " + name, encode_jpeg(image)).or_throw();
    }
    flatten();
  }
  static JobSpec grouped() {
    JobSpec s = exact();
    s.group_duplicates = true;
    return s;
  }
};

TEST_F(GroupedJob, GivesTheBytesOfOneMachineForOneAndTwoStores) {
  const std::string expected = by_one_machine(grouped());
  EXPECT_NE(expected, by_one_machine(exact()));
  for (const uint32_t stores : {1U, 2U}) {
    log_.clear();
    const auto result = by_stores(grouped(), "g" + std::to_string(stores), stores);
    EXPECT_EQ(result["model_id"], expected) << stores << " stores\n" << log_;
    EXPECT_THAT(log_, ContainsRegex("photos are in [0-9]+ groups that are almost the same: [1-9]"));
    EXPECT_THAT(log_, HasSubstr("each group is on one side of the split"));
  }
}

// Of pixels that stores send there are the same groups; an interrupted job goes on with its split.
TEST_F(GroupedJob, IsTheSameInOtherModesAndWhereItGoesOn) {
  JobSpec s = grouped();
  const auto expected = by_stores(s, "ndpipe", 1)["val_photos"];
  EXPECT_NE(by_stores(exact(), "plain", 1)["val_photos"], expected);
  s.mode = JobMode::kSrvC;
  EXPECT_EQ(by_stores(s, "pixels", 2)["val_photos"], expected) << log_;
  s.mode = JobMode::kNdpipe;
  s.stores = 2u;
  s.trainer.epochs = kLonger;
  const std::string unbroken = train(s, "unbroken")["model_id"];
  EXPECT_EQ(in_two_lives(s, "broken", [] {})["model_id"], unbroken) << log_;
}

}  // namespace
}  // namespace ndtrain::tuner
