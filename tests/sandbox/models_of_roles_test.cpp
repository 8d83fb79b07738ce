// Roles that have models tried in the sandbox before they import them.
#include <gmock/gmock.h>

#include "framework/testing/memory_fs.h"
#include "ndp/pipestore/photo_row_producer.h"
#include "tests/roles/tuner_group_fixture.h"
#include "tests/sandbox/hostile_pool.h"
#include "tests/support/files.h"
#include "tuner/models/model_store.h"

namespace ndtrain::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr const char* kCrashed =
    "it is not imported: a process that tried was stopped: it crashed (SIGSEGV)";

// The bytes that were tried are those that are imported: another file cannot take their place.
TEST(CheckedModels, AreImportedFromTheBytesThatWereTried) {
  MemoryFs fs;
  const std::string good = export_model(build_model("tinynet", {.classes = 2, .img_size = 16}));
  support::write_file(fs, "m.onnx", good);
  class Swapping final : public ModelCheck {
   public:
    explicit Swapping(Fs& fs) : fs_(fs) {}
    Status check(const Digest& digest, std::string_view file) override {
      EXPECT_EQ(digest, sha256(file));
      publish(fs_, "m.onnx", "!crash").or_throw();
      return {};
    }

   private:
    Fs& fs_;
  } swapping(fs);
  EXPECT_EQ(load_checked_model(fs, "m.onnx", &swapping).outputs(), 2);
  EXPECT_EQ(fs.read("m.onnx").or_throw(), "!crash");
}

TEST(CheckedModels, ATunerRefusesOneThatEndsItsImporter) {
  MemoryFs fs;
  ModelSandbox sandbox(hostile_models());
  ModelStore models(fs, "models", &sandbox);
  const Digest bad = models.add("!crash").or_throw();
  EXPECT_THAT([&] { (void)models.load(bad); },
              ThrowsMessage<Error>(AllOf(StartsWith(models.path(bad)), HasSubstr(kCrashed))));
  const Digest good =
      models.add(export_model(build_model("tinynet", {.classes = 2, .img_size = 16}))).or_throw();
  EXPECT_EQ(models.load(good).outputs(), 2);
}

class ModelsOfRoles : public TunerGroup {
 protected:
  static constexpr SandboxMode kMode = SandboxMode::kUploads;

  PipeStoreConfig boxed(PipeStoreConfig c) const {
    c.sandbox = kMode;
    c.pool = hostile_config();
    c.models = hostile_models();
    return c;
  }
  TunerConfig boxed(TunerConfig c) const {
    c.sandbox = kMode;
    c.pool = hostile_config();
    c.model_sandbox = hostile_models();
    return c;
  }
};

TEST_F(ModelsOfRoles, AStoreRefusesAJobWhoseModelEndsItsImporter) {
  ModelSandbox sandbox(hostile_models());
  real_fs().make_directories(at("cache")).or_throw();
  PhotoRowProducer rows({.photos = at("photos"), .cache = at("cache"), .check = &sandbox}, devices_,
                        real_fs(), system_clock());
  const auto photos = std::make_shared<StoreInventory>(rows.scan().or_throw());
  support::write_file(real_fs(), at("bad.onnx"), "!crash");
  wire::Job job;
  job.set_rows(wire::Job::FEATURES);
  EXPECT_THAT([&] { (void)rows.open(job, photos, at("bad.onnx"), ""); },
              ThrowsMessage<Error>(AllOf(StartsWith(at("bad.onnx")), HasSubstr(kCrashed))));
  EXPECT_THAT([&] { (void)rows.open(job, photos, at("base.onnx"), at("bad.onnx")); },
              ThrowsMessage<Error>(HasSubstr(kCrashed)));
  EXPECT_TRUE(rows.open(job, photos, at("base.onnx"), "").ok());
  EXPECT_EQ(sandbox.counts().models, 2);
}

TEST_F(ModelsOfRoles, TrainTheSameWithAndWithoutIt) {
  const std::string expected = by_one_tuner();
  ModelSandbox sandbox(hostile_models());
  MemberConfig config = member("a");
  config.check = &sandbox;
  members_["a"] = std::make_unique<RunningMember>(config, devices_);
  TunerDaemon daemon(boxed(tuner("boxed")), devices_, real_fs(), system_clock());
  const nlohmann::json result =
      train_by(daemon, spec(2), {boxed(store("x", 0, 2)), boxed(store("y", 1, 2))});
  EXPECT_EQ(result["model_id"], expected) << log_;
  EXPECT_EQ(sandbox.counts().models, 1) << "the member's head";
}

TEST_F(ModelsOfRoles, AMemberWhoseHeadEndsItsImporterLeavesAndSaysWhy) {
  class Refusing final : public ModelCheck {
   public:
    Status check(const Digest&, std::string_view) override { return {Code::kCorrupt, kCrashed}; }
  } refusing;
  MemberConfig config = member("careful");
  config.check = &refusing;
  members_["careful"] = std::make_unique<RunningMember>(config, devices_);
  JobSpec s = spec(2);
  s.store_timeout = 5;
  ::testing::internal::CaptureStderr();
  const nlohmann::json result = train(s, "state");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(result["lost_tuners"], nlohmann::json({"careful"})) << log_;
  EXPECT_THAT(said, ContainsRegex("member careful left its training: .*head.onnx: " +
                                  std::string("it is not imported: a process that tried")));
}

TEST_F(ModelsOfRoles, AJobOfSuchAModelFailsAndTheTunerLives) {
  support::write_file(real_fs(), at("bad.onnx"), "!crash");
  {
    TunerDaemon daemon(boxed(tuner("state")), devices_, real_fs(), system_clock());
    JobSpec s = spec(1);
    s.model = to_hex(daemon.add_model(at("bad.onnx")));
    const TunerDaemon::Outcome o = daemon.run_job(
        s, [] { return false; }, [](const auto&) {});
    EXPECT_TRUE(o.ended);
    EXPECT_FALSE(o.done);
    EXPECT_THAT(o.message, HasSubstr(kCrashed));
  }
  TunerDaemon daemon(boxed(tuner("state")), devices_, real_fs(), system_clock());
  const nlohmann::json result = train_by(daemon, spec(1), {store("x", 0, 2), store("y", 1, 2)});
  EXPECT_EQ(result["stores"], 2) << log_;
}

}  // namespace
}  // namespace ndtrain::testing
