// A model reaches its stores over a link that breaks: what has come stays.
#include <gmock/gmock.h>

#include <atomic>
#include <mutex>

#include "framework/core/net.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain {
namespace {

using testing::RolesTest;
using testing::RunningStore;

// Passes connections on to an address, and breaks each after so many bytes towards its dialler.
class BreakingRelay {
 public:
  BreakingRelay(std::string to, std::vector<int64_t> breaks)
      : to_(std::move(to)),
        breaks_(std::move(breaks)),
        listener_(real_net().listen("127.0.0.1:0").or_throw()),
        thread_([this] { run(); }) {}
  ~BreakingRelay() {
    stop_ = true;
    thread_.join();
    for (const auto& stream : streams_) stream->close();
  }

  std::string address() const { return listener_->address(); }
  int64_t passed() const { return passed_; }  // bytes towards the dialler
  size_t connections() const { return connections_; }

 private:
  void run() {
    while (!stop_) {
      auto near = listener_->accept(std::chrono::milliseconds(100));
      if (!near.ok()) continue;
      auto far = real_net().dial(to_);
      if (!far.ok()) continue;
      const size_t i = connections_++;
      const int64_t most = i < breaks_.size() ? breaks_[i] : int64_t{1} << 60;
      const std::shared_ptr<Stream> a = std::move(*near), b = std::move(*far);
      streams_.insert(streams_.end(), {a, b});
      threads_.emplace_back([this, a, b] { pass(*a, *b, int64_t{1} << 60, nullptr); });
      threads_.emplace_back([this, a, b, most] { pass(*b, *a, most, &passed_); });
    }
  }
  static void pass(Stream& from, Stream& to, int64_t most, std::atomic<int64_t>* count) {
    std::vector<std::byte> bytes(65536);
    while (most > 0) {
      const Result<size_t> n = from.read(bytes, std::chrono::seconds(60));
      if (!n.ok() || *n == 0 || !to.write(std::span(bytes).first(*n)).ok()) break;
      most -= static_cast<int64_t>(*n);
      if (count) *count += static_cast<int64_t>(*n);
    }
    from.close();
    to.close();
  }

  const std::string to_;
  const std::vector<int64_t> breaks_;
  std::unique_ptr<Listener> listener_;
  std::atomic<bool> stop_ = false;
  std::atomic<size_t> connections_ = 0;
  std::atomic<int64_t> passed_ = 0;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<std::jthread> threads_;  // after streams_: they end first
  std::thread thread_;
};

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
  BreakingRelay one(daemon.address(), {bytes / 3, bytes / 3}),
      two(daemon.address(), {bytes / 2, bytes / 4});
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
}  // namespace ndtrain
