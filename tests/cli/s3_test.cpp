// The program over photos in an S3.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "ndp/labels/label_db.h"
#include "tests/cli/program_fixture.h"
#include "tests/s3/s3_server.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;

class S3ProgramTest : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    draw_photos(6);
    for (int i = 0; i < 6; ++i) {
      const std::string path = "c" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg";
      server_.put("july/" + path, real_fs().read(at("photos/" + path)).or_throw());
    }
    for (const auto& [name, value] : variables_) setenv(name, value.c_str(), 1);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }
  void TearDown() override {
    for (const auto& [name, value] : variables_) unsetenv(name);
  }

  Outcome relabel(const std::string& photos, const std::string& db) const {
    return run({"relabel", photos, "-m", "m.onnx", "--db", "sqlite:" + db, "--json"});
  }
  // Path and class of each photo, as the database has them.
  std::vector<std::string> labels(const std::string& file) const {
    const auto db = open_label_db("sqlite:" + at(file), OpenLabelDb::kExisting).or_throw();
    std::vector<std::string> all;
    const LabelPage page = db->query({.collection = existing_collection(*db, "default").or_throw(),
                                      .task = existing_task(*db, "default").or_throw()})
                               .or_throw();
    for (const LabelRow& row : page.rows) all.push_back(row.path + " " + row.class_name);
    std::ranges::sort(all);
    return all;
  }

  support::S3Server server_{"photos"};
  const std::map<const char*, std::string> variables_ = {
      {"AWS_ENDPOINT_URL", server_.endpoint()},
      {"AWS_REGION", support::S3Server::kRegion},
      {"AWS_ACCESS_KEY_ID", support::S3Server::kKey},
      {"AWS_SECRET_ACCESS_KEY", support::S3Server::kSecret}};
};

TEST_F(S3ProgramTest, RelabelGivesTheLabelsOfAFolderAndFetchesEachPhotoOnce) {
  ASSERT_EQ(relabel("photos", "folder.db").code, 0);
  Outcome o = relabel("s3://photos/july", "s3.db");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out).at("labelled"), 6);
  EXPECT_EQ(server_.count("GET", "/photos/july/"), 6);
  EXPECT_EQ(labels("s3.db").size(), 6U);
  EXPECT_EQ(labels("s3.db"), labels("folder.db"));
  o = relabel("s3://photos/july", "s3.db");
  EXPECT_EQ(nlohmann::json::parse(o.out).at("already_labelled"), 6);
  EXPECT_EQ(server_.count("GET", "/photos/july/"), 6);
}

TEST_F(S3ProgramTest, WhatIsWrongIsNamedWithWhatHelps) {
  Outcome o = relabel("s3://other/july", "s3.db");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("s3://other/"));
  EXPECT_THAT(o.err, HasSubstr("make the bucket, or correct its name"));
  setenv("AWS_SECRET_ACCESS_KEY", "another", 1);
  o = relabel("s3://photos/july", "s3.db");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"));
  EXPECT_THAT(o.err, ::testing::Not(HasSubstr("another")));
}

TEST_F(S3ProgramTest, DoctorSaysWhatReadsS3) {
  const Outcome o = run({"doctor"});
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.out + o.err, HasSubstr("photos: from S3 by libcurl "));
  const Outcome json = run({"doctor", "--json"});
  EXPECT_THAT(nlohmann::json::parse(json.out).at("s3").at("library").get<std::string>(),
              HasSubstr("libcurl "));
}

}  // namespace
}  // namespace ndtrain
