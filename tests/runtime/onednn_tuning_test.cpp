// The tuning file of the onednn plugin: made by measurement, obeyed ever after, named in the
// numerics where it departs from the fixed rule.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/runtime/onednn_cases.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

class OnednnTuning : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(onednn(), nullptr);
    if (channel_block() == 8) GTEST_SKIP() << "without AVX-512 there is nothing to choose";
    onednn()->set_threads(1);
    onednn()->set_tuning_file(path_);
  }
  void TearDown() override {
    if (onednn()) onednn()->set_tuning_file("");
  }

  // Of a layer of 64 channels, 14 x 14, unless said otherwise.
  static Bytes run(int64_t channels = 64, int64_t batch = 4) {
    const Batched c = {"Tuned",
                       "Conv",
                       {{1, channels, 14, 14}, {channels, channels, 3, 3}},
                       {{"pads", Ints{1, 1, 1, 1}}}};
    NodeRun node = batch_of(c, 0, batch);
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
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  static std::string replaced(std::string s, const std::string& from, const std::string& to) {
    for (size_t at; (at = s.find(from)) != s.npos;) s.replace(at, from.size(), to);
    return s;
  }
  // The file with this choice for all layers.
  std::string with(const std::string& choice) const {
    return replaced(replaced(replaced(text(), " direct", " ?"), " winograd", " ?"), " ?",
                    " " + choice);
  }

  const support::TemporaryDirectory directory_;
  const std::string path_ = directory_.at("tuning.txt");
};

TEST_F(OnednnTuning, KeepsALinePerLayerWhateverItsBatch) {
  run(64, 4);
  const std::string one = text();
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 2) << one;
  run(64, 1);
  EXPECT_EQ(text(), one);
  run(48, 4);
  const std::string two = text();
  EXPECT_EQ(std::count(two.begin(), two.end(), '\n'), 3) << two;
}

TEST_F(OnednnTuning, IsObeyedAndNamedInTheNumericsWhereItDepartsFromTheRule) {
  run();
  write(with("winograd"));
  const Bytes winograd = run();
  onednn()->set_tuning_file("");
  EXPECT_TRUE(run() == winograd) << "the rule for this layer is Winograd";
  onednn()->set_tuning_file(path_);
  const std::string before = onednn()->abi().numerics;
  write(with("direct"));
  EXPECT_FALSE(run() == winograd);
  EXPECT_NE(before, onednn()->abi().numerics);
  EXPECT_NE(std::string(onednn()->abi().numerics).find("tuned-"), std::string::npos);
  onednn()->set_tuning_file("");
  EXPECT_TRUE(run() == winograd) << "a deterministic device reads no tuning file";
}

TEST_F(OnednnTuning, IsBegunAnewWhenItIsNotOurs) {
  write("something else\nconv3x3 direct\n");
  run();
  EXPECT_EQ(text().substr(0, 14), "ndtrain onednn");
  EXPECT_EQ(text().find("something"), std::string::npos);
}

TEST_F(OnednnTuning, DoesNotStopTheWorkWhenItCannotBeWritten) {
  const Bytes want = run();
  onednn()->set_tuning_file(directory_.at("no/such/folder/tuning.txt"));
  EXPECT_EQ(run().size(), want.size());
}

}  // namespace
}  // namespace ndtrain
