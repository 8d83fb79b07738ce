// A job over PipeStores in a precision: measured and compared on photos of all stores.
#include "framework/graph/precision.h"

#include <gmock/gmock.h>

#include "cli/state_check.h"
#include "framework/core/publish.h"
#include "ndp/jobs/finetune.h"
#include "tests/roles/roles_fixture.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RolesTest;
using testing::RunningStore;

class JobPrecision : public RolesTest {
 protected:
  static JobSpec spec(const std::string& precision) {
    JobSpec s{.stores = 2, .deterministic = true, .precision = precision, .max_drop = 100};
    s.trainer.epochs = 1;
    s.freeze = "layer1";
    return s;
  }
  Model extractor_of(const std::string& state) const {
    const Versions versions(real_fs(), at(state + "/versions.json"));
    return ModelStore(real_fs(), at(state + "/models")).load(versions.find(1)->extractor).model;
  }
  // On one machine that has all photos.
  Model alone(const std::string& precision) {
    FinetuneConfig c{
        .data = at("photos"), .model = at("base.onnx"), .out = at("alone" + precision)};
    c.freeze = "layer1";
    c.cache = at("cache");
    c.how.trainer.epochs = 1;
    c.precision = {.precision = precision, .max_drop = 100};
    NoProgress quiet;
    finetune(c, devices_.get(true), real_fs(), system_clock(), quiet);
    return load_model(real_fs(), c.out + "/extractor.onnx").model;
  }
  std::string failure(const JobSpec& like, const std::string& state) {
    TunerDaemon daemon(tuner(state), devices_, real_fs(), system_clock());
    JobSpec s = like;
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    const RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
    const auto until = system_clock().monotonic() + std::chrono::minutes(2);
    const auto o = daemon.run_job(
        s, [&] { return system_clock().monotonic() > until; }, [](const std::string&) {});
    EXPECT_TRUE(o.ended && !o.done);
    return o.message;
  }
};

// Scales that every store measured for itself would make other features on each.
TEST_F(JobPrecision, StoresComputeWhatOneMachineWithAllPhotosWould) {
  for (const std::string precision : {"int8", "bf16", "f32"}) {
    SCOPED_TRACE(precision);
    const nlohmann::json result = run(spec(precision), precision);
    const Model together = extractor_of(precision), apart = alone(precision);
    const std::vector<std::string> keys = {kPrecisionKey};
    EXPECT_EQ(name_of(declared_precision(together)), precision);
    EXPECT_EQ(content_id(together, keys), content_id(apart, keys));
    EXPECT_EQ(declared_precision(load_model(real_fs(), result["model"]).model),
              declared_precision(apart));
    EXPECT_EQ(result["stores"], 2);
    EXPECT_EQ(result["classes"], kClasses);
    EXPECT_TRUE(real_fs().list(at(precision + "/jobs/1/survey/spool")).ok() ==
                (precision != "f32"));
  }
  EXPECT_THAT(log_, AllOf(HasSubstr("before int8: 60 of 60 photos on 2 stores are looked at"),
                          HasSubstr("int8: 60 photos against f32"),
                          HasSubstr("bf16: 60 photos against f32")));
}

TEST_F(JobPrecision, ATunerThatHasThePhotosItselfMeasuresOnThoseOfTheJob) {
  for (const std::string precision : {"int8", "bf16", "auto"}) {
    SCOPED_TRACE(precision);
    JobSpec s = spec(precision);
    s.mode = JobMode::kIdeal;
    s.photos = at("photos");
    (void)run(s, precision);
    const std::string chosen = precision == "auto" ? "f32" : precision;
    EXPECT_EQ(name_of(declared_precision(extractor_of(precision))), chosen);
    const std::vector<std::string> keys = {kPrecisionKey};
    EXPECT_EQ(content_id(extractor_of(precision), keys), content_id(alone(chosen), keys));
  }
  EXPECT_THAT(log_, AllOf(HasSubstr("int8: 60 photos against f32"),
                          HasSubstr("precision f32: the cpu backend has"),
                          Not(HasSubstr("the stores compute"))));
}

TEST_F(JobPrecision, ADropBeyondWhatIsAllowedIsRefusedBeforeTheJobBegins) {
  JobSpec s = spec("bf16");
  s.max_drop = -1;
  EXPECT_THAT(failure(s, "refused"), AllOf(HasSubstr("bf16: 60 photos"), HasSubstr("refused")));
  EXPECT_FALSE(real_fs().exists(at("refused/jobs/1/manifest.cbor")));
  s.freeze = "none";
  EXPECT_THAT(failure(s, "thawed"), HasSubstr("nothing of the model is frozen"));
}

TEST_F(JobPrecision, AutoGoesByTheSpeedOfTheStores) {
  (void)run(spec("auto"), "tuner");
  EXPECT_THAT(log_, HasSubstr("precision f32: in bf16 the stores compute this many times as fast: "
                              "tuner0 1.00 tuner1 1.00"));
  EXPECT_EQ(declared_precision(extractor_of("tuner")), Precision::kF32);
}

TEST_F(JobPrecision, ATunerThatStopsMeanwhileGoesOnWithTheSameExtractor) {
  JobSpec s = spec("int8");
  s.max_drop = 50;
  (void)run(s, "calm");
  {
    TunerDaemon daemon(tuner("disturbed"), devices_, real_fs(), system_clock());
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    const RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
    (void)daemon.run_job(
        s, [&] { return real_fs().exists(at("disturbed/jobs/1/survey/manifest.cbor")); },
        [](const std::string&) {});
    EXPECT_FALSE(real_fs().exists(at("disturbed/jobs/1/extractor.onnx")));
  }
  TunerDaemon daemon(tuner("disturbed"), devices_, real_fs(), system_clock());
  const RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
  (void)outcome(daemon, s);
  const std::vector<std::string> keys = {kPrecisionKey};
  EXPECT_EQ(content_id(extractor_of("disturbed"), keys), content_id(extractor_of("calm"), keys));
}

TEST_F(JobPrecision, AnOutcomeThatRottedIsMadeAgain) {
  JobSpec s = spec("int8");
  (void)run(s, "calm");
  const std::string outcome_file = at("rotten/jobs/1/lowered.onnx");
  {
    TunerDaemon daemon(tuner("rotten"), devices_, real_fs(), system_clock());
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    const RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
    (void)daemon.run_job(
        s, [&] { return real_fs().exists(at("rotten/jobs/1/lowered.json")); },
        [](const std::string&) {});
  }
  const cli::FileCheck check = cli::check_of("tuner", "jobs/1/lowered.onnx");
  EXPECT_TRUE(check(real_fs(), outcome_file).ok());
  const std::string whole = real_fs().read(outcome_file).or_throw();
  std::string bytes = whole;
  bytes[bytes.size() / 2] ^= 1;
  publish(real_fs(), outcome_file, bytes).or_throw();
  EXPECT_FALSE(check(real_fs(), outcome_file).ok());

  TunerDaemon daemon(tuner("rotten"), devices_, real_fs(), system_clock());
  const RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
  (void)outcome(daemon, s);
  EXPECT_EQ(real_fs().read(outcome_file).or_throw(), whole);
  const std::vector<std::string> keys = {kPrecisionKey};
  EXPECT_EQ(content_id(extractor_of("rotten"), keys), content_id(extractor_of("calm"), keys));
}

TEST_F(JobPrecision, ARelabellingByAModelInAPrecisionIsByAVersionOfItsOwn) {
  const RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
  const auto relabelled = [&](const std::string& precision, uint64_t seed) {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    JobSpec s{.kind = JobKind::kRelabel, .stores = 2, .seed = seed};
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    s.precision = precision;
    s.max_drop = 100;
    return outcome(daemon, s);
  };
  const nlohmann::json plain = relabelled("", 1), low = relabelled("bf16", 2);
  EXPECT_EQ(low["labelled"], kPhotos);
  EXPECT_NE(low["version"], plain["version"]);
  EXPECT_EQ(relabelled("bf16", 3)["already_labelled"], kPhotos) << "it is the same version";
}

}  // namespace
}  // namespace ndtrain::tuner
