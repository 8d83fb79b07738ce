// A model reaches its stores over a link that breaks: what has come stays.
#include <gmock/gmock.h>

#include "tests/roles/breaking_relay.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::BreakingRelay;
using testing::RolesTest;
using testing::RunningStore;

TEST_F(RolesTest, ResNet50ReachesTwoStoresOverALinkThatIsCutTwice) {
  ModelFile file{.path = at("resnet50.onnx"),
                 .model = build_model("resnet50", {.classes = 5, .img_size = kSide})};
  file.preprocess.img_size = file.preprocess.resize = kSide;
  save_model(real_fs(), file.path, file);
  const int64_t bytes = real_fs().info(file.path).or_throw().size;
  ASSERT_GT(bytes, 90'000'000);

  TunerConfig config = tuner("tuner");
  config.listen = "127.0.0.1:0";
  TunerDaemon daemon(config, devices_, real_fs(), system_clock());
  BreakingRelay one(daemon.address(), {.down = {bytes / 3, bytes / 3}}),
      two(daemon.address(), {.down = {bytes / 2, bytes / 4}});
  PipeStoreConfig a = store("a", 0, 2), b = store("b", 1, 2);
  a.tuner = one.address();
  b.tuner = two.address();
  RunningStore first(a, devices_), second(b, devices_);
  JobSpec spec;
  spec.model = to_hex(daemon.add_model(file.path));
  spec.stores = 2;
  spec.trainer.epochs = 1;
  spec.publish = false;
  (void)outcome(daemon, spec);
  for (const BreakingRelay* relay : {&one, &two}) {
    EXPECT_GE(relay->connections(), 3u);
    // Of a part that was under way at a break, a little travels again: 4 MiB at most, each time.
    EXPECT_LT(relay->passed(), bytes + 2 * (int64_t{5} << 20));
  }
}

}  // namespace
}  // namespace ndtrain::tuner
