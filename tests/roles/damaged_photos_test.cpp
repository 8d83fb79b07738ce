// Photos on disks that change them, while the roles are at work.
#include <gmock/gmock.h>

#include <fstream>

#include "ndp/http/http_client.h"
#include "ndp/photos/upload_path.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

class DamagedPhotos : public testing::RolesTest {
 protected:
  PipeStoreConfig scrubbed(const std::string& name, uint32_t i) const {
    PipeStoreConfig config = store(name, i, 2);
    config.http = "127.0.0.1:0";
    config.scrub = std::chrono::seconds(1);
    return config;
  }
  TunerConfig tuner_with_http() const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    return config;
  }
  // A job over both stores, which then have said what they hold.
  void work() {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    const testing::RunningStore a(scrubbed("a", 0), devices_), b(scrubbed("b", 1), devices_);
    for (const std::string& http : {a.http(), b.http()}) {
      ASSERT_EQ(HttpClient(http).post("/photos", upload_).or_throw().status / 100, 2);
    }
    JobSpec spec{.stores = 2};
    spec.head = "linear";
    spec.trainer.epochs = 1;
    spec.model = to_hex(daemon.add_model(at("base.onnx")));
    outcome(daemon, spec);
  }
  // A bit, and nothing else of it.
  static void rot(const std::string& file) {
    const auto time = std::filesystem::last_write_time(file);
    std::string bytes = real_fs().read(file).or_throw();
    bytes[bytes.size() / 2] ^= 1;
    {
      std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
      f.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    std::filesystem::last_write_time(file, time);
  }
  static bool shows(const std::string& http, const std::string& line) {
    const auto r = HttpClient(http).get("/metrics");
    return r.ok() && r->body.find("\n" + line + "\n") != std::string::npos;
  }
  static uint64_t damaged(const std::string& http, const std::string& store) {
    for (const auto& s : nlohmann::json::parse(HttpClient(http).get("/stores").or_throw().body)) {
      if (s["store"] == store) return s["damaged"];
    }
    return 0;
  }
  std::string file_of(const std::string& store) const {
    return at("state-" + store + "/" + upload_path_of(sha256(upload_), upload_));
  }

  const std::string upload_ = encode_jpeg(cli::draw_demo_photo(0, cli::Look::kDay, 999));
};

TEST_F(DamagedPhotos, AnUploadIsPutRightFromAnotherStore) {
  work();
  rot(file_of("a"));
  const testing::RunningTuner t(tuner_with_http(), devices_);
  const testing::RunningStore b(scrubbed("b", 1), devices_), a(scrubbed("a", 0), devices_);
  await([&] { return real_fs().read(file_of("a")).or_throw() == upload_; });
  await([&] {
    return shows(a.http(), "ndtrain_photos_restored_total 1") &&
           shows(a.http(), "ndtrain_photos_damaged 0");
  });
  const auto shown = HttpClient(a.http()).get("/photos/" + to_hex(sha256(upload_))).or_throw();
  EXPECT_EQ(shown.status, 200);
  EXPECT_EQ(shown.body, upload_);
}

TEST_F(DamagedPhotos, OneThatNobodyElseHasIsToldAndShownToNobody) {
  work();
  const testing::RunningTuner t(tuner_with_http(), devices_);
  const testing::RunningStore a(scrubbed("a", 0), devices_), b(scrubbed("b", 1), devices_);
  for (int i = 0; i < kPhotos; ++i) {
    const std::string file =
        at("photos/c" + std::to_string(i % kClasses) + "/" + std::to_string(i) + ".jpg");
    const std::string bytes = real_fs().read(file).or_throw();
    const std::string path = "/photos/" + to_hex(sha256(bytes));
    if (HttpClient(a.http()).get(path).or_throw().status != 200) continue;
    rot(file);
    const HttpResponse first = HttpClient(a.http()).get(path).or_throw();
    EXPECT_NE(first.status, 200) << "before the scrub has read it, too";
    await([&] { return damaged(t.http(), "a") == 1; });
    EXPECT_TRUE(shows(t.http(), "ndtrain_store_photos_damaged{store=\"a\"} 1"));
    EXPECT_EQ(HttpClient(a.http()).get(path).or_throw().status, 404);
    publish(real_fs(), file, bytes).or_throw();
    await([&] { return damaged(t.http(), "a") == 0; });
    EXPECT_EQ(HttpClient(a.http()).get(path).or_throw().body, bytes);
    return;
  }
  FAIL() << "store a shows none";
}

}  // namespace
}  // namespace ndtrain::tuner
