// Stores whose backends compute other bits work on one job when their features agree.
#include <gmock/gmock.h>

#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RolesTest;
using testing::RunningStore;

class MixedBackends : public RolesTest {
 protected:
  void SetUp() override {
    const std::vector<std::string> there = Backend::available();
    if (std::ranges::find(there, "onednn") == there.end()) GTEST_SKIP() << "no onednn plugin";
    RolesTest::SetUp();
  }
  // One store of each backend.
  TunerDaemon::Outcome fine_tune(bool deterministic) {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    const RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), onednn_);
    JobSpec s{.stores = 2, .deterministic = deterministic};
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    s.trainer.epochs = 1;
    s.freeze = "layer1";
    s.feature_dtype = DType::kF32;
    const auto until = system_clock().monotonic() + std::chrono::minutes(2);
    return daemon.run_job(
        s, [&] { return system_clock().monotonic() > until; },
        [&](const std::string& line) { log_ += line + "\n"; });
  }

  Devices onednn_{"onednn"};
};

TEST_F(MixedBackends, AJobRunsOnceTheFeaturesOfASampleAgree) {
  const TunerDaemon::Outcome o = fine_tune(false);
  ASSERT_TRUE(o.done) << o.message << log_;
  EXPECT_EQ(nlohmann::json::parse(o.result)["stores"], 2);
  EXPECT_THAT(log_, AllOf(HasSubstr("different numerics"), HasSubstr("onednn"),
                          HasSubstr("on 8 photos their features differ by")));
}

TEST_F(MixedBackends, ADeterministicJobIsRefusedWithTheReason) {
  const TunerDaemon::Outcome o = fine_tune(true);
  ASSERT_TRUE(o.ended);
  EXPECT_FALSE(o.done);
  EXPECT_THAT(o.message, AllOf(HasSubstr("a with "), HasSubstr("b with "), HasSubstr("onednn"),
                               HasSubstr("a deterministic job needs one kind")));
}

}  // namespace
}  // namespace ndtrain::tuner
