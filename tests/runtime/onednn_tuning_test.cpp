// The tuning file of the onednn plugin: measured where that is asked for, obeyed, named in the
// numerics where it departs from the fixed rule.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/runtime/onednn_cases.h"
#include "tests/support/changed_tuning.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/winograd.h"

namespace ndtrain {
namespace {

class OnednnTuning : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(onednn(), nullptr);
    if (!support::has_winograd(onednn()->numerics())) {
      GTEST_SKIP() << "without Winograd there is nothing to choose";
    }
    onednn()->set_threads(1);
    measure();
  }
  void TearDown() override {
    if (onednn()) onednn()->set_tuning_file("");
  }

  // Of a layer of 64 channels, 14 x 14, unless said otherwise.
  static Bytes run(int64_t channels = 64, int64_t batch = 4, DType t = DType::kF32) {
    const Batched c = {"Tuned",
                       "Conv",
                       {{1, channels, 14, 14}, {channels, channels, 3, 3}},
                       {{"pads", Ints{1, 1, 1, 1}}}};
    NodeRun node = batch_of(c, 0, batch, t);
    freeze(node);
    const auto ports = onednn()->prefer(node, ports_from(node, Start::kBlocked));
    EXPECT_TRUE(ports.has_value());
    return std::move(onednn()->run(node, *ports).at(0));
  }
  std::string text() const {
    std::ostringstream s;
    s << std::ifstream(path_).rdbuf();
    return s.str();
  }
  void measure() const { onednn()->set_tuning_file(path_, true); }
  void read() const { onednn()->set_tuning_file(path_); }
  // The file with this choice for all layers.
  void choose(const std::string& choice) const {
    support::change_tuning(path_,
                           [&](const std::string&, plugin::TunedChoice& c) { c.choice = choice; });
  }

  const support::TemporaryDirectory directory_;
  const std::string path_ = directory_.at("tuning.txt");
};

TEST_F(OnednnTuning, KeepsALinePerLayerWhateverItsBatch) {
  run(64, 4);
  const std::string one = text();
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 3) << one;
  run(64, 1);
  EXPECT_EQ(text(), one);
  run(48, 4);
  const std::string two = text();
  EXPECT_EQ(std::count(two.begin(), two.end(), '\n'), 4) << two;
}

TEST_F(OnednnTuning, KeepsALineForEachDtype) {
  if (channel_block() != 16) GTEST_SKIP() << "bf16 needs AVX-512";
  run(64, 4);
  run(64, 4, DType::kBF16);
  const std::string both = text();
  EXPECT_EQ(std::count(both.begin(), both.end(), '\n'), 4) << both;
}

TEST_F(OnednnTuning, IsObeyedAndNamedInTheNumericsWhereItDepartsFromTheRule) {
  run();
  choose("winograd");
  read();
  const Bytes winograd = run();
  const std::string by_rule = onednn()->abi().numerics;
  EXPECT_EQ(onednn()->numerics(), by_rule) << "the rule for this layer is Winograd";
  choose("direct");
  EXPECT_FALSE(run() == winograd);
  EXPECT_EQ(onednn()->numerics().find(by_rule + " tuned-"), 0U) << onednn()->numerics();
  onednn()->set_tuning_file("");
  EXPECT_TRUE(run() == winograd) << "a deterministic device reads no tuning file";
  EXPECT_EQ(onednn()->numerics(), by_rule);
}

TEST_F(OnednnTuning, IsFinalWhenADeviceIsOpened) {
  run();
  choose("direct");
  read();
  const std::string numerics = onednn()->numerics();
  const Bytes direct = run();
  onednn()->keep_open(true);
  (void)onednn()->numerics();  // opens it
  choose("winograd");
  EXPECT_TRUE(run() == direct);
  run(48);
  EXPECT_EQ(onednn()->numerics(), numerics);
  onednn()->keep_open(false);
  EXPECT_FALSE(run() == direct);
}

TEST_F(OnednnTuning, MeasuresNothingUnlessThatIsAskedFor) {
  run(64);
  read();
  const std::string before = text();
  const Bytes tuned = run(48);
  EXPECT_EQ(text(), before);
  onednn()->set_tuning_file("");
  EXPECT_TRUE(run(48) == tuned) << "by the rule";
}

}  // namespace
}  // namespace ndtrain
