// A store whose uploads are decoded in the sandbox.
#include <gmock/gmock.h>

#include <string>

#include "framework/core/json.h"
#include "ndp/http/http_client.h"
#include "ndp/http/http_server.h"
#include "ndp/photos/upload_path.h"
#include "ndp/pipestore/upload_http.h"
#include "ndp/sandbox/upload_decoder.h"
#include "tests/photos/golden_formats.h"
#include "tests/pipestore/uploads_fixture.h"
#include "tests/sandbox/hostile_pool.h"

namespace ndtrain::ndp {
namespace {

using testing::decoded_by;
using ::testing::HasSubstr;
using testing::hostile_config;
using testing::photo_file;

class UploadsInTheSandbox : public testing::UploadsTest {
 protected:
  void serve(SandboxMode mode) {
    decoder_ = std::make_unique<UploadDecoder>(mode, hostile_config());
    open({.decoder = decoder_.get()});
    server_ =
        HttpServer::listen("127.0.0.1:0", upload_routes({uploads_.get()}), 1 << 16).or_throw();
  }
  ~UploadsInTheSandbox() override {
    server_.reset();
    close();
  }
  HttpClient client() const { return HttpClient(server_->address()); }
  HttpResponse post(const std::string& file) const {
    return client().post("/photos", file, "application/octet-stream").or_throw();
  }
  int64_t photos() const { return decoder_->pool().counts().photos; }

  std::unique_ptr<UploadDecoder> decoder_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(UploadsInTheSandbox, AnExploitIsRefusedAndTheStoreGoesOn) {
  serve(SandboxMode::kUploads);
  version(1);
  ASSERT_EQ(post(photo_file(0)).status, 200);
  for (const char* act : {"!crash", "!leave", "!answer nonsense"}) {
    const HttpResponse r = post(act);
    EXPECT_EQ(r.status, 422);
    EXPECT_THAT(r.body, HasSubstr("is not kept: its decoder was stopped"));
    const std::string id = to_hex(sha256(act));
    EXPECT_EQ(client().get("/photos/" + id).or_throw().status, 404);
  }
  const std::string file = photo_file(1);
  const HttpResponse r = post(file);
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(Json::parse(r.body).at("scores").size(), 3U);
  EXPECT_EQ(uploads_->counts().unreadable, 3);
}

TEST_F(UploadsInTheSandbox, LabelsAreThoseOfPhotosDecodedHere) {
  serve(SandboxMode::kUploads);
  version(1);
  const auto model = testing::model_of(1);
  for (int i = 0; i < 3; ++i) {
    const std::string file = photo_file(i);
    const auto photo = uploads_->add(file).or_throw();
    testing::expect_label(photo.known, testing::labels_of(*model, {file}).at(0));
  }
  EXPECT_EQ(photos(), 3);
  (void)uploads_->feature(photo_file(4), *uploads_->model("default")).or_throw();
  EXPECT_EQ(photos(), 4);
}

TEST_F(UploadsInTheSandbox, SoAreWhatBrowsersAreShown) {
  serve(SandboxMode::kUploads);
  const std::string file = testing::golden_file("TIFF", "plain");
  if (!can_decode(PhotoFormat::kTiff)) GTEST_SKIP() << "this build reads no TIFF";
  const HttpResponse r = post(file);
  ASSERT_EQ(r.status, 202) << r.body;
  const std::string id = Json::parse(r.body).at("id");
  EXPECT_EQ(photos(), 1);
  EXPECT_EQ(client().get("/photos/" + id).or_throw().type, "image/jpeg");
  EXPECT_EQ(photos(), 2);
  EXPECT_EQ(client().get("/photos/" + id + "/thumbnail").or_throw().type, "image/jpeg");
  EXPECT_EQ(photos(), 3);
}

TEST(UploadDecoder, DecodesOthersHereUnlessItIsToldAll) {
  const std::string file = photo_file(0);
  const std::string uploaded = upload_path(sha256(file), ".jpg");
  UploadDecoder uploads(SandboxMode::kUploads, hostile_config());
  ASSERT_TRUE(decoded_by(uploads, file, "roses/a.jpg").ok());
  EXPECT_EQ(uploads.pool().counts().photos, 0);
  ASSERT_TRUE(decoded_by(uploads, file, uploaded).ok());
  EXPECT_EQ(uploads.pool().counts().photos, 1);
  UploadDecoder all(SandboxMode::kAll, hostile_config());
  ASSERT_TRUE(decoded_by(all, file, "roses/a.jpg").ok());
  ASSERT_TRUE(decoded_by(all, file, uploaded).ok());
  EXPECT_EQ(all.pool().counts().photos, 2);
}

TEST(UploadDecoder, HasThreeNames) {
  for (const SandboxMode m : {SandboxMode::kOff, SandboxMode::kUploads, SandboxMode::kAll}) {
    EXPECT_EQ(sandbox_mode(name_of(m)), m);
  }
  EXPECT_THROW(sandbox_mode("some"), Error);
}

}  // namespace
}  // namespace ndtrain::ndp
