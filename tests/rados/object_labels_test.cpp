#include "ndp/pipestore/object_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/thread_pool.h"
#include "framework/testing/memory_fs.h"
#include "ndp/photos/encode.h"
#include "ndp/photos/photo_source.h"
#include "ndp/wire/digests.h"
#include "tests/rados/fake_pool.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;

constexpr const char* kLabelled = "rados://photos/july";
constexpr const char* kAttribute = "ndtrain.label";

std::string grey_photo(uint8_t grey) {
  Image image(8, 8);
  std::ranges::fill(image.rgb, grey);
  return encode_jpeg(image);
}

class ObjectLabelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    put("rose/1.jpg", grey_photo(10));
    put("rose/2.jpg", grey_photo(20));
    scan();
  }

  void put(const std::string& name, const std::string& bytes) {
    cluster_.put(name, bytes);
    cluster_.objects[name].seconds += ++puts_;
  }
  ScanReport scan() {
    DirectorySource source(*fs_, kLabelled);
    ThreadPool pool(2);
    ScanOptions far;
    far.far = true;
    return catalogue_->scan(source, pool, far).or_throw();
  }
  Digest photo(const std::string& name) const { return sha256(cluster_.objects.at(name).bytes); }
  // As when a version has labelled the photo that was found there.
  void log_label(const std::string& name, const std::string& label, uint64_t version,
                 const std::string& task = "") {
    wire::Upload line;
    line.set_digest(bytes_of(photo(name)));
    line.set_path(name);
    line.set_time(1'600'000'000);
    line.set_task(task);
    line.set_version(version);
    line.set_extractor(extractor_);
    line.set_head(head_);
    wire::TopClass& top = *line.add_top();
    top.set_name(label);
    top.set_score(.93F);
    log_->commit({line}).or_throw();
    labels_.look();
  }
  JobLabels job_label(const std::string& name, const std::string& label) const {
    return {.model = extractor_ + head_, .photos = {{photo(name), name, label, .93F}}};
  }
  void step_behind(ObjectLabels::Time time) {
    clock_.advance(time);
    (void)labels_.step();
  }
  std::string attribute(const std::string& name, const std::string& attribute = kAttribute) {
    const auto& all = cluster_.objects.at(name).attributes;
    return all.contains(attribute) ? all.at(attribute) : "";
  }
  std::string expected(const std::string& name, const std::string& label, int version) const {
    return R"({"label":")" + label + R"(","score":0.93,"sha256":")" + to_hex(photo(name)) +
           R"(","version":)" + std::to_string(version) + "}";
  }

  const std::string extractor_ = std::string(32, 'e'), head_ = std::string(32, 'h');
  ndtrain::testing::FakeCluster cluster_;
  ManualClock clock_;
  int puts_ = 0;
  support::TemporaryDirectory state_;
  std::unique_ptr<RadosFs> fs_ =
      with_rados(std::make_unique<MemoryFs>(), clock_, {}, cluster_.opens());
  std::unique_ptr<Catalogue> catalogue_ = Catalogue::open(real_fs(), state_.at("list")).or_throw();
  std::unique_ptr<UploadLog> log_ = UploadLog::open(real_fs(), state_.at("uploads")).or_throw();
  ObjectLabels labels_{{.photos = kLabelled, .rados = *fs_, .log = *log_, .clock = clock_},
                       Catalogue::open(real_fs(), state_.at("list")).or_throw()};
};

TEST_F(ObjectLabelsTest, OfTheVersionInForceAreWrittenOnceAndThePhotoStaysWhatItIs) {
  labels_.put_in_force(std::string(kDefaultTask), 3, extractor_ + head_);
  labels_.put_in_force("size", 5, extractor_ + head_);
  log_label("rose/1.jpg", "rose", 3);
  log_label("rose/1.jpg", "small", 5, "size");
  step_behind(ObjectLabels::kSoon);
  EXPECT_EQ(attribute("rose/1.jpg"), expected("rose/1.jpg", "rose", 3));
  EXPECT_EQ(attribute("rose/1.jpg", "ndtrain.label.size"), expected("rose/1.jpg", "small", 5));
  EXPECT_EQ(attribute("rose/2.jpg"), "") << "nothing is known of it";
  EXPECT_EQ(labels_.counts().written, 2U);
  const ScanReport again = scan();
  EXPECT_EQ(again.hashed, 0);
  EXPECT_EQ(again.changed, 0);
  const uint64_t writes = cluster_.writes;
  labels_.look();
  step_behind(ObjectLabels::kSoon);
  step_behind(ObjectLabels::kOnceMore);
  labels_.put_in_force("size", 5, extractor_ + head_);  // as after a start
  step_behind(ObjectLabels::kSoon);
  EXPECT_EQ(cluster_.writes, writes) << "they are there";
}

TEST_F(ObjectLabelsTest, OfOtherVersionsAreNotWritten) {
  labels_.put_in_force(std::string(kDefaultTask), 3, extractor_ + head_);
  log_label("rose/1.jpg", "tulip", 2);
  step_behind(ObjectLabels::kSoon);
  EXPECT_EQ(attribute("rose/1.jpg"), "");
  log_label("rose/1.jpg", "rose", 3);
  step_behind(ObjectLabels::kSoon);
  EXPECT_EQ(attribute("rose/1.jpg"), expected("rose/1.jpg", "rose", 3));
  labels_.put_in_force(std::string(kDefaultTask), 4, head_ + extractor_);
  step_behind(ObjectLabels::kSoon);
  EXPECT_EQ(attribute("rose/1.jpg"), expected("rose/1.jpg", "rose", 3)) << "until 4 has one";
  log_label("rose/1.jpg", "daisy", 4);
  step_behind(ObjectLabels::kSoon);
  EXPECT_EQ(attribute("rose/1.jpg"), expected("rose/1.jpg", "daisy", 4));
}

TEST_F(ObjectLabelsTest, AnObjectThatWasOverwrittenGetsNoLabelOfThePhotoBefore) {
  labels_.put_in_force(std::string(kDefaultTask), 3, extractor_ + head_);
  log_label("rose/1.jpg", "rose", 3);
  const Digest before = photo("rose/1.jpg");
  put("rose/1.jpg", grey_photo(30));
  step_behind(ObjectLabels::kSoon);
  EXPECT_EQ(attribute("rose/1.jpg"), "");
  EXPECT_EQ(scan().changed, 1);
  step_behind(ObjectLabels::kOnceMore);
  EXPECT_EQ(attribute("rose/1.jpg"), "");
  labels_.take({.model = extractor_ + head_, .photos = {{before, "rose/1.jpg", "rose", .93F}}});
  EXPECT_EQ(attribute("rose/1.jpg"), "");
  labels_.take(job_label("rose/1.jpg", "daisy"));
  EXPECT_EQ(attribute("rose/1.jpg"), expected("rose/1.jpg", "daisy", 3));
  put("rose/1.jpg", grey_photo(40));  // which leaves the attributes there
  EXPECT_EQ(scan().changed, 1);
}

TEST_F(ObjectLabelsTest, OfJobsAreWrittenAtOnceOrWaitUntilTheirVersionIsInForce) {
  labels_.take(job_label("rose/1.jpg", "rose"));
  EXPECT_EQ(labels_.counts().waiting, 1U);
  labels_.put_in_force(std::string(kDefaultTask), 3, extractor_ + head_);
  step_behind(ObjectLabels::Time(0));
  EXPECT_EQ(attribute("rose/1.jpg"), expected("rose/1.jpg", "rose", 3));
  EXPECT_EQ(labels_.counts().waiting, 0U);
  labels_.take(job_label("rose/2.jpg", "daisy"));
  EXPECT_EQ(attribute("rose/2.jpg"), expected("rose/2.jpg", "daisy", 3));
  JobLabels other = job_label("rose/2.jpg", "tulip");
  other.model = "another model";
  labels_.take(other);
  for (int i = 0; i < 61; ++i) step_behind(ObjectLabels::kRetry);
  EXPECT_EQ(labels_.counts().waiting, 0U);
  EXPECT_EQ(labels_.counts().lost, 1U);
  EXPECT_EQ(attribute("rose/2.jpg"), expected("rose/2.jpg", "daisy", 3));
}

TEST_F(ObjectLabelsTest, WaitForAClusterThatIsAwayAndForObjectsThatWereWrittenJustNow) {
  labels_.put_in_force(std::string(kDefaultTask), 3, extractor_ + head_);
  cluster_.refused = Status(Code::kUnavailable, "timed out");
  log_label("rose/1.jpg", "rose", 3);
  labels_.take(job_label("rose/2.jpg", "daisy"));
  step_behind(ObjectLabels::kSoon);
  EXPECT_EQ(labels_.counts().waiting, 1U);
  cluster_.refused.reset();
  step_behind(ObjectLabels::kRetry);
  EXPECT_EQ(attribute("rose/1.jpg"), expected("rose/1.jpg", "rose", 3));
  EXPECT_EQ(attribute("rose/2.jpg"), expected("rose/2.jpg", "daisy", 3));

  put("rose/3.jpg", grey_photo(50));
  cluster_.objects["rose/3.jpg"].seconds = clock_.unix_seconds();
  scan();
  labels_.take(job_label("rose/3.jpg", "tulip"));
  EXPECT_THAT(cluster_.objects["rose/3.jpg"].attributes, Not(Contains(Key(kAttribute))));
  step_behind(ObjectLabels::kRetry);
  EXPECT_EQ(attribute("rose/3.jpg"), expected("rose/3.jpg", "tulip", 3));
}

TEST_F(ObjectLabelsTest, AUserThatMayNotWriteIsNotAskedAgain) {
  labels_.put_in_force(std::string(kDefaultTask), 3, extractor_ + head_);
  cluster_.refused = Status(Code::kUnsupported, "Operation not permitted");
  log_label("rose/1.jpg", "rose", 3);
  step_behind(ObjectLabels::kSoon);
  cluster_.refused.reset();
  labels_.look();
  step_behind(ObjectLabels::kSoon);
  EXPECT_EQ(attribute("rose/1.jpg"), "");
  EXPECT_EQ(labels_.counts().written, 0U);
}

}  // namespace
}  // namespace ndtrain::ndp
