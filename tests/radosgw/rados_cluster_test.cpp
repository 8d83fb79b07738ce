// Objects of the Ceph cluster beneath a radosgw, by librados: made once, labelled, removed, and
// relabelled where they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "cli/demo_photos.h"
#include "framework/core/hash.h"
#include "framework/runtime/devices.h"
#include "models/zoo.h"
#include "ndp/jobs/relabel.h"
#include "ndp/photos/encode.h"
#include "ndp/rados/rados_fs.h"
#include "ndp/s3/s3_fs.h"
#include "tests/radosgw/radosgw_server.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::minutes kMapPatience{2};

class RadosClusterTest : public ::testing::Test {
 protected:
  static constexpr int kPhotos = 20, kSide = 32;

  void SetUp() override {
    if (const std::string why = support::RadosgwServer::lacking(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    server_ = &support::RadosgwServer::shared();
    ::setenv("CEPH_CONF", server_->configuration().c_str(), 1);
    server_->ceph({"osd", "pool", "create", "photos", "4"});
    clock_.advance(std::chrono::hours(24 * 365 * 20));  // objects are older than that
  }
  void TearDown() override {
    for (const std::string& path : made_) (void)fs_->remove(path);
  }
  Status put(const std::string& path, const std::string& bytes) {
    Result<std::unique_ptr<File>> file = fs_->open(path, Fs::Mode::kCreate);
    if (!file.ok()) return file.status();
    made_.insert(path);
    return (*file)->append(std::as_bytes(std::span(bytes)));
  }
  // The cluster's map says it some time after it was told.
  Code put_until(Code code) {
    const auto until = std::chrono::steady_clock::now() + kMapPatience;
    Code last = code;
    while (std::chrono::steady_clock::now() < until) {
      last = put("rados://photos/july/" + std::to_string(puts_++) + ".jpg", "x").code();
      if (last == code) return last;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return last;
  }

  support::RadosgwServer* server_ = nullptr;
  support::TemporaryDirectory directory_;
  ManualClock clock_;
  std::set<std::string> made_;
  int puts_ = 0;
  std::unique_ptr<RadosFs> fs_ = with_rados(
      with_s3(real_fs(), system_clock(), [] { return Result(S3Settings{}); }), clock_, {});
};

TEST_F(RadosClusterTest, ObjectsAreMadeOnceInEachNamespaceAndRemoved) {
  const std::string path = "rados://photos/july/uploads/a.jpg", large(size_t{6} << 20, 'x');
  put(path, large).or_throw();
  EXPECT_EQ(fs_->read(path).or_throw(), large);
  put(path, large).or_throw();
  const Status other = put(path, "other");
  EXPECT_EQ(other.code(), Code::kExists);
  EXPECT_THAT(other.message(), HasSubstr(path));
  EXPECT_EQ(fs_->info(path).or_throw().size, static_cast<int64_t>(large.size()));
  put("rados://photos//b.jpg", "b").or_throw();
  EXPECT_THAT(fs_->list("rados://photos//").or_throw(), ElementsAre("b.jpg"));
  EXPECT_THAT(fs_->list("rados://photos/july").or_throw(), ElementsAre("uploads"));
  EXPECT_EQ(fs_->read("rados://photos//b.jpg").or_throw(), "b");

  const std::string names[] = {"uploads/a.jpg", "none.jpg"};
  const auto pool = open_object_pool("photos", "july").or_throw();
  const auto described = pool->describe(names);
  EXPECT_EQ(described[0].status().message(), "");
  EXPECT_EQ(described[0]->attributes.at("ndtrain.sha256"), to_hex(sha256(large)));
  EXPECT_EQ(described[1].status().code(), Code::kNotFound);
  fs_->remove(path).or_throw();
  EXPECT_EQ(fs_->info(path).status().code(), Code::kNotFound);
  EXPECT_EQ(fs_->remove(path).code(), Code::kNotFound);
}

TEST_F(RadosClusterTest, AttributesMakeNoOtherPhotoOfAnObject) {
  const std::string path = "rados://photos/july/a.jpg", large(size_t{6} << 20, 'x');
  put(path, large).or_throw();
  const FileInfo before = fs_->info(path).or_throw();
  const auto file = fs_->open(path, Fs::Mode::kRead).or_throw();
  const auto set = [&](const char* label) {
    return fs_->set_attributes(
        std::vector<FileAttributes>{{path, before, {{"ndtrain.label", label}}}})[0];
  };
  const std::string names[] = {"a.jpg"};
  const auto pool = open_object_pool("photos", "july").or_throw();
  const auto now = [&] { return pool->describe(names)[0]; };
  const uint64_t first = now()->object.version;
  set("rose").or_throw();
  set("daisy").or_throw();
  const ObjectDescription labelled = now().or_throw();
  EXPECT_EQ(labelled.attributes.at("ndtrain.label"), "daisy");
  EXPECT_GT(labelled.object.version, first);
  EXPECT_EQ(labelled.object.content, first);
  set("daisy").or_throw();
  EXPECT_EQ(now()->object.version, labelled.object.version) << "it is there";
  const FileInfo after = fs_->info(path).or_throw();
  EXPECT_EQ(after.inode, before.inode);
  EXPECT_EQ(after.mtime_ns, before.mtime_ns);
  std::vector<std::byte> end(10);
  EXPECT_EQ(file->read_at(static_cast<int64_t>(large.size()) - 10, end).or_throw(), 10U);

  // Where somebody else writes at the same time, one of both is told.
  std::vector<NewAttributes> late = {{"a.jpg", labelled.object, {{"ndtrain.label", "tulip"}}}};
  late[0].object.version = first;
  EXPECT_EQ(pool->set_attributes(late)[0].code(), Code::kExists);
  fs_->remove(path).or_throw();
  put(path, "another").or_throw();
  EXPECT_EQ(set("rose").code(), Code::kExists);
  EXPECT_EQ(now()->attributes.count("ndtrain.label"), 0U);
}

TEST_F(RadosClusterTest, AFullPoolTakesNothingAndGivesRoomByRemovals) {
  const std::string path = "rados://photos/july/there.jpg";
  put(path, "there").or_throw();
  server_->ceph({"tell", "osd.0", "injectfull", "full"});
  EXPECT_EQ(put_until(Code::kNoSpace), Code::kNoSpace);
  fs_->remove(path).or_throw();
  server_->ceph({"tell", "osd.0", "injectfull", "none"});
  EXPECT_EQ(put_until(Code::kOk), Code::kOk);
}

TEST_F(RadosClusterTest, ANamespaceIsRelabelledWhereItIs) {
  for (int i = 0; i < kPhotos; ++i) {
    put("rados://photos/june/" + std::to_string(i) + ".jpg",
        encode_jpeg(cli::draw_demo_photo(i % 2, cli::Look::kDay, static_cast<uint64_t>(i))))
        .or_throw();
  }
  ModelFile file{.path = directory_.at("model.onnx"),
                 .model = build_model("tinynet", {.classes = 2, .img_size = kSide})};
  file.preprocess.img_size = file.preprocess.resize = kSide;
  save_model(real_fs(), file.path, file);
  const ModelFile model = load_model(real_fs(), file.path);
  Devices devices("cpu");
  const auto db = open_label_db("sqlite:" + directory_.at("labels.db")).or_throw();
  const RelabelConfig config{.photos = {.names = {"rados://photos/june"}},
                             .cache = directory_.at("cache")};
  NoProgress quiet;
  const auto labelled = [&] {
    return relabel(config, model, devices.get(false), *db, *fs_, system_clock(), quiet);
  };
  EXPECT_EQ(labelled().labelled, kPhotos);
  put("rados://photos/june/more.jpg",
      encode_jpeg(cli::draw_demo_photo(1, cli::Look::kDay, uint64_t{kPhotos})))
      .or_throw();
  const RelabelResult again = labelled();
  EXPECT_EQ(again.labelled, 1);
  EXPECT_EQ(again.already, kPhotos);
}

}  // namespace
}  // namespace ndtrain::ndp
