// Uploads whose files the disk has changed.
#include <gmock/gmock.h>

#include "ndp/photos/upload_path.h"
#include "tests/pipestore/uploads_fixture.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;

class DamagedUploads : public testing::UploadsTest {
 protected:
  void SetUp() override {
    UploadConfig config;
    config.suspect = [this](const std::string& path) { suspects_.push_back(path); };
    open(config);
    id_ = uploads_->add(testing::photo_file(1)).or_throw().id;
    path_ = upload_path_of(id_, testing::photo_file(1));
    std::string bytes = testing::photo_file(1);
    bytes[bytes.size() / 2] ^= 1;
    fs_.remove(file()).or_throw();
    support::write_file(fs_, file(), bytes);
  }
  std::string file() const { return state_ + "/" + path_; }
  std::string there() { return fs_.read(file()).or_throw(); }

  Digest id_{};
  std::string path_;
  std::vector<std::string> suspects_;
};

TEST_F(DamagedUploads, AreShownToNobody) {
  const Result<std::string> read = uploads_->read(id_);
  EXPECT_EQ(read.status().code(), Code::kIo);
  EXPECT_THAT(read.status().message(), HasSubstr("the disk has changed it"));
  EXPECT_EQ(suspects_, std::vector<std::string>{path_});
}

TEST_F(DamagedUploads, AreWrittenAnewWhenTheyAreUploadedAgain) {
  EXPECT_TRUE(uploads_->add(testing::photo_file(1)).ok());
  EXPECT_EQ(there(), testing::photo_file(1));
  EXPECT_EQ(uploads_->read(id_).or_throw(), testing::photo_file(1));
  EXPECT_EQ(suspects_, std::vector<std::string>{path_}) << "that the photo is whole again";
}

TEST_F(DamagedUploads, ArePutRightByTheirOwnBytesAlone) {
  EXPECT_EQ(uploads_->put_back(id_, testing::photo_file(2)).code(), Code::kCorrupt);
  EXPECT_EQ(uploads_->put_back(sha256(testing::photo_file(2)), testing::photo_file(2)).code(),
            Code::kNotFound);
  uploads_->put_back(id_, testing::photo_file(1)).or_throw();
  EXPECT_EQ(there(), testing::photo_file(1));
}

TEST_F(DamagedUploads, GoWhenTheyAreDeleted) {
  uploads_->remove(id_).or_throw();
  EXPECT_FALSE(fs_.exists(file()));
  EXPECT_EQ(uploads_->put_back(id_, testing::photo_file(1)).code(), Code::kNotFound);
  EXPECT_FALSE(fs_.exists(file()));
}

}  // namespace
}  // namespace ndtrain::ndp
