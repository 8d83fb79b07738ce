#include "ndp/pipestore/upload_http.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "framework/core/fs.h"
#include "framework/testing/faulty_fs.h"
#include "ndp/http/http_client.h"
#include "ndp/photos/decode.h"
#include "tests/http/raw_http.h"
#include "tests/photos/golden_formats.h"
#include "tests/pipestore/uploads_fixture.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;
using testing::model_of;
using testing::photo_file;
using ::testing::StartsWith;

// Files below a directory, with their sizes.
std::map<std::string, int64_t> files_in(Fs& fs, const std::string& directory) {
  std::map<std::string, int64_t> all;
  for (const std::string& name : fs.list(directory).or_throw()) {
    const std::string path = join(directory, name);
    const FileInfo info = fs.info(path).or_throw();
    if (info.is_directory) {
      all.merge(files_in(fs, path));
    } else {
      all[path] = info.size;
    }
  }
  return all;
}

class UploadHttp : public testing::UploadsTest {
 protected:
  void serve(const UploadConfig& config = {}) {
    open(config);
    server_ =
        HttpServer::listen("127.0.0.1:0", upload_routes({uploads_.get()}), 1 << 16).or_throw();
  }
  ~UploadHttp() override { server_.reset(); }
  HttpClient client() const { return HttpClient(server_->address()); }
  HttpResponse post(const std::string& file) const {
    return client().post("/photos", file, "application/octet-stream").or_throw();
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(UploadHttp, TakesAPhotoAndShowsWhatIsKnownOfIt) {
  serve();
  EXPECT_EQ(post(photo_file(0)).status, 202);
  version(1);
  const std::string file = photo_file(1);
  const HttpResponse r = post(file);
  ASSERT_EQ(r.status, 200) << r.body;
  const nlohmann::json json = nlohmann::json::parse(r.body);
  const std::string id = json.at("id");
  EXPECT_EQ(id, to_hex(sha256(file)));
  EXPECT_EQ(json.at("version"), 1);
  EXPECT_EQ(json.at("source"), "model");
  EXPECT_EQ(json.at("scores").size(), 3U);
  EXPECT_EQ(json.at("label"), json.at("scores").at(0).at("label"));
  EXPECT_EQ(nlohmann::json::parse(client().get("/photos/" + id + "/label").or_throw().body), json);

  const HttpResponse photo = client().get("/photos/" + id).or_throw();
  EXPECT_EQ(photo.body, file);
  EXPECT_EQ(photo.type, "image/jpeg");
  EXPECT_EQ(photo.headers.at("Content-Disposition"), "attachment") << "no page of its own";
  const HttpResponse small = client().get("/photos/" + id + "/thumbnail").or_throw();
  EXPECT_EQ(decode(std::as_bytes(std::span(small.body))).or_throw().image.width, 128);

  const HttpResponse said =
      client().put("/photos/" + id + "/label", R"({"label": "peony"})").or_throw();
  EXPECT_EQ(said.status, 200) << said.body;
  EXPECT_EQ(nlohmann::json::parse(said.body).at("label"), "peony");
  EXPECT_EQ(nlohmann::json::parse(said.body).at("source"), "human");
  EXPECT_EQ(client().put("/photos/" + id + "/label", "peony").or_throw().status, 400);
  EXPECT_EQ(client().put("/photos/" + id + "/label", R"({"label": "a\nb"})").or_throw().status,
            400);

  EXPECT_EQ(client().remove("/photos/" + id).or_throw().status, 200);
  EXPECT_EQ(client().get("/photos/" + id).or_throw().status, 404);
  EXPECT_EQ(post(file).status, 410);
}

// Each operation by which an upload is kept finds no room, or room for half of it.
TEST_F(UploadHttp, AFullVolumeIsSaidLeavesNothingBehindAndTakesTheNextWhenThereIsRoom) {
  FaultyFs faulty(fs_);
  disk_ = &faulty;
  std::vector<std::string> taken;
  int full = 0;
  for (const Fault fault : {Fault::kNoSpace, Fault::kShortWrite}) {
    for (int n = 1; n < 50; ++n) {
      SCOPED_TRACE(std::string(name_of(fault)) + ", operation " + std::to_string(n));
      serve();
      const auto before = files_in(fs_, "state");
      const std::string file = photo_file(static_cast<int>(taken.size()));
      faulty.strike(n, fault, true);
      const HttpResponse r = post(file);
      const bool struck = faulty.struck();
      faulty.heal();
      taken.push_back(file);
      if (!struck) {
        EXPECT_EQ(r.status, 202) << r.body;
        break;
      }
      ++full;
      EXPECT_EQ(r.status, 507) << r.body;
      EXPECT_THAT(r.body, HasSubstr("No space left on device"));
      EXPECT_EQ(files_in(fs_, "state"), before);
      EXPECT_EQ(client().get("/photos/" + to_hex(sha256(file))).or_throw().status, 404);
      EXPECT_EQ(post(file).status, 202) << "now there is room";
      server_.reset();
    }
    server_.reset();
  }
  EXPECT_GT(full, 4);
  serve();  // as a process that starts after it
  for (const std::string& file : taken) {
    EXPECT_EQ(client().get("/photos/" + to_hex(sha256(file))).or_throw().body, file);
  }
  EXPECT_EQ(log_->counts().photos, static_cast<int64_t>(taken.size()));
  server_.reset();
  close();
}

TEST_F(UploadHttp, BrowsersGetAJpegOfWhatTheyCannotShow) {
  serve();
  struct Case {
    const char *format, *name, *type;
  };
  for (const Case& c : {Case{"HEIC", "plain", "image/jpeg"},
                        {"TIFF", "plain", "image/jpeg"},
                        {"AVIF", "plain", "image/avif"},
                        {"WebP", "lossless", "image/webp"},
                        {"GIF", "interlaced", "image/gif"}}) {
    SCOPED_TRACE(c.format);
    const std::string file = testing::golden_file(c.format, c.name);
    const HttpResponse r = post(file);
    if (!can_decode(sniff(std::as_bytes(std::span(file))))) {
      EXPECT_EQ(r.status, 422);
      continue;
    }
    ASSERT_EQ(r.status, 202) << r.body;
    const nlohmann::json json = nlohmann::json::parse(r.body);
    const std::string id = json.at("id"), path = json.at("path");
    EXPECT_EQ(format_of_extension(extension_of(path)), sniff(std::as_bytes(std::span(file))));
    const HttpResponse photo = client().get("/photos/" + id).or_throw();
    EXPECT_EQ(photo.type, c.type);
    EXPECT_EQ(media_type(sniff(std::as_bytes(std::span(photo.body)))), c.type);
    const HttpResponse small = client().get("/photos/" + id + "/thumbnail").or_throw();
    EXPECT_EQ(decode(std::as_bytes(std::span(small.body))).or_throw().image.width, 128);
  }
}

TEST_F(UploadHttp, SaysWhatIsWrongWithAnUpload) {
  serve({.most_bytes = 5000});
  EXPECT_EQ(post("").status, 400);
  const HttpResponse bad = post("no photo");
  EXPECT_EQ(bad.status, 422);
  EXPECT_THAT(bad.body, HasSubstr("is not kept"));
  EXPECT_EQ(post(std::string(5001, 'x')).status, 413);
  EXPECT_EQ(client().get("/photos/" + std::string(64, 'a')).or_throw().status, 404);
}

TEST_F(UploadHttp, TellsWhomItCannotServeNowToComeBack) {
  serve({.queue = 1});
  const auto held = uploads_->admit(1000);
  support::RawHttp raw(server_->address());
  raw.say("POST /photos HTTP/1.1\r\nContent-Length: 4000\r\n\r\n");
  const std::string head = raw.hear("\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(head, HasSubstr("Retry-After: 1\r\n"));
}

TEST_F(UploadHttp, AClientHasAQuota) {
  serve({.quota = 1});
  EXPECT_EQ(post(photo_file(0)).status, 202);
  const HttpResponse r = post(photo_file(1));
  EXPECT_EQ(r.status, 429);
  EXPECT_THAT(r.body, HasSubstr("127.0.0.1 uploads more than its quota"));
}

}  // namespace
}  // namespace ndtrain::ndp
