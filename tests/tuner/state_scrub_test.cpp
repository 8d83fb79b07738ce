// A Tuner that looks at its labels and models again and again, on a disk that changes them.
#include "tuner/state_scrub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "framework/core/hash.h"
#include "ndp/labels/label_counts_check.h"
#include "ndp/labels/label_db.h"
#include "ndp/sqlite/sqlite.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;

class StateScrubbed : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(root_.at("models"));
    support::write_file(real_fs(), model_, kModel);
    (void)open_label_db("sqlite:" + labels_).or_throw();
  }
  StateScrub scrub(std::chrono::nanoseconds period) const {
    return StateScrub({.labels = labels_,
                       .models = root_.at("models"),
                       .period = period,
                       .first = std::chrono::milliseconds(1)},
                      real_fs(), system_clock());
  }
  // What is damaged after one more round.
  static std::map<std::string, std::string> next(const StateScrub& scrub) {
    const int64_t now = scrub.counts().rounds;
    while (scrub.counts().rounds < now + 2) {  // the one under way began before
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return scrub.counts().damaged;
  }
  void flip(const std::string& file, int64_t at) const {
    std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
    f.seekg(at);
    const int byte = f.get();
    f.seekp(at);
    f.put(static_cast<char>(byte ^ 4));
  }

  static constexpr const char* kModel = "the bytes of a model";
  const support::TemporaryDirectory root_;
  const std::string labels_ = root_.at("labels.db");
  const std::string model_ = root_.at("models/" + to_hex(sha256(kModel)) + ".onnx");
};

TEST_F(StateScrubbed, FindsAModelThatIsAnotherAndForgetsItWhenItIsPutBack) {
  const StateScrub scrubbing = scrub(std::chrono::milliseconds(1));
  EXPECT_THAT(next(scrubbing), IsEmpty());
  EXPECT_GE(scrubbing.counts().files, 2) << "the model and the labels";
  flip(model_, 3);
  EXPECT_THAT(next(scrubbing), ElementsAre(Pair(model_, HasSubstr("others than those"))));
  support::write_file(real_fs(), model_, kModel);
  EXPECT_THAT(next(scrubbing), IsEmpty());
  flip(model_, 3);
  EXPECT_THAT(next(scrubbing), ElementsAre(Key(model_)));
  std::filesystem::remove(model_);
  EXPECT_THAT(next(scrubbing), IsEmpty());
}

TEST_F(StateScrubbed, FindsALabelDatabaseThatIsAnotherWhileItRunsAndWhenItStarts) {
  {
    const StateScrub scrubbing = scrub(std::chrono::milliseconds(1));
    EXPECT_THAT(next(scrubbing), IsEmpty());
    flip(labels_, 4096 + 100);
    EXPECT_THAT(next(scrubbing), ElementsAre(Key(labels_)));
  }
  const StateScrub start = scrub(std::chrono::nanoseconds(0));
  EXPECT_THAT(start.counts().damaged, ElementsAre(Key(labels_)));
  EXPECT_EQ(start.counts().rounds, 0);
}

TEST_F(StateScrubbed, FindsLabelsThatAreCountedWrong) {
  const StateScrub scrubbing = scrub(std::chrono::milliseconds(1));
  EXPECT_THAT(next(scrubbing), IsEmpty());
  const int64_t collection =
      open_label_db("sqlite:" + labels_).or_throw()->collection("c").or_throw();
  sql::Database(labels_).execute("INSERT INTO photo_counts VALUES (" + std::to_string(collection) +
                                 ", 3)");
  EXPECT_THAT(next(scrubbing),
              ElementsAre(Pair(labels_, HasSubstr("3 photos are counted, 0 are there"))));
  ASSERT_TRUE(count_labels_again(labels_).ok());
  EXPECT_THAT(next(scrubbing), IsEmpty());
}

}  // namespace
}  // namespace ndtrain::tuner
