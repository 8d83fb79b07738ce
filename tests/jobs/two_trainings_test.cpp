// Two jobs on one machine, with one cache.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <semaphore>

#include "tests/jobs/finetune_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;
using ::testing::HasSubstr;

constexpr int64_t kSharedPhotos = kClasses * (kTrain + kVal);

// Stops where a stage of this name begins, until it is let go.
class Halted final : public Progress {
 public:
  explicit Halted(std::string stage) : stage_(std::move(stage)) {}
  void begin(const std::string& stage, int64_t, const std::string&) override {
    if (!stage.starts_with(stage_)) return;
    reached_.release();
    go_.acquire();
    go_.release();
  }
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string&) override {}
  void wait() { reached_.acquire(); }
  void go() { go_.release(); }

 private:
  const std::string stage_;
  std::counting_semaphore<> reached_{0}, go_{0};
};

// Tells when somebody waits.
class SaysThatItWaits final : public Progress {
 public:
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string& line) override {
    if (!line.starts_with("waits: ")) return;
    said_ = line;
    waits_.release();
  }
  bool interrupted() const override { return interrupted_; }
  std::string said() {
    waits_.acquire();
    return said_;
  }
  void interrupt() { interrupted_ = true; }

 private:
  std::string said_;
  std::counting_semaphore<> waits_{0};
  std::atomic<bool> interrupted_ = false;
};

class TwoTrainings : public FinetuneTest {
 protected:
  std::future<FinetuneResult> begin(const FinetuneConfig& c, Progress& progress) {
    return std::async(std::launch::async, [this, c, &progress] { return train(c, progress); });
  }
};

TEST_F(TwoTrainings, TrainAtOnceOnTheSameFeatures) {
  for (const int64_t memory : {int64_t{0}, int64_t{1}}) {  // held, or streamed from the cache
    const std::string name = memory ? "streamed" : "held";
    Halted training("epoch 2/");
    FinetuneConfig c = config(name);
    c.memory_limit = memory;
    std::future<FinetuneResult> first = begin(c, training);
    training.wait();
    const FinetuneResult second = train(config("second " + name));
    EXPECT_EQ(second.extraction.extracted, 0);
    training.go();
    (void)first.get();
    EXPECT_EQ(bytes(name + "/model.onnx"), bytes("second " + name + "/model.onnx"));
  }
}

TEST_F(TwoTrainings, OneExtractsWhileAnotherReadsWhatIsThere) {
  train(config("before"));
  FinetuneConfig other = config("other");
  other.freeze = "layer2";
  Halted extracting("extracting");
  std::future<FinetuneResult> writes = begin(other, extracting);
  extracting.wait();
  EXPECT_EQ(train(config("reads")).extraction.cached, kSharedPhotos);
  extracting.go();
  EXPECT_EQ(writes.get().extraction.extracted, kSharedPhotos);
}

TEST_F(TwoTrainings, ThatExtractTheSamePhotosShareTheWork) {
  Halted extracting("extracting");
  SaysThatItWaits waiting;
  std::future<FinetuneResult> first = begin(config("first"), extracting);
  extracting.wait();
  std::future<FinetuneResult> second = begin(config("second"), waiting);
  const std::string said = waiting.said();
  EXPECT_THAT(said, HasSubstr("process " + std::to_string(getpid())));
  EXPECT_THAT(said, HasSubstr("trains " + at("first")));
  EXPECT_THAT(said, HasSubstr("another --cache"));
  extracting.go();
  EXPECT_EQ(first.get().extraction.extracted, kSharedPhotos);
  EXPECT_EQ(second.get().extraction.extracted, 0);
  EXPECT_EQ(bytes("first/model.onnx"), bytes("second/model.onnx"));
}

TEST_F(TwoTrainings, WhoWaitsForTheOtherCanBeInterrupted) {
  Halted extracting("extracting");
  SaysThatItWaits waiting;
  std::future<FinetuneResult> first = begin(config("first"), extracting);
  extracting.wait();
  std::future<FinetuneResult> second = begin(config("second"), waiting);
  (void)waiting.said();
  waiting.interrupt();
  EXPECT_TRUE(second.get().interrupted);
  extracting.go();
  (void)first.get();
  FinetuneConfig again = config("second");
  again.resume = true;
  EXPECT_FALSE(train(again).interrupted);
  EXPECT_EQ(bytes("first/model.onnx"), bytes("second/model.onnx"));
}

TEST_F(TwoTrainings, AFailedStartLeavesNothingBehindAndTheNextOneBegins) {
  FinetuneConfig c = config("runs/a");
  c.model = at("none.onnx");
  EXPECT_THROW(train(c), Error);
  EXPECT_FALSE(real_fs().exists(at("runs")));
  c.model = at("base.onnx");
  c.cache = at("base.onnx");  // a file
  EXPECT_THROW(train(c), Error);
  EXPECT_FALSE(real_fs().exists(at("runs")));
  c.cache = at("cache");
  EXPECT_FALSE(train(c).interrupted);
}

TEST_F(TwoTrainings, AreNotOfOneRun) {
  Halted training("epoch 2/");
  std::future<FinetuneResult> first = begin(config("run"), training);
  training.wait();
  FinetuneConfig again = config("run");
  again.resume = true;
  EXPECT_THROW(train(again), Error);
  training.go();
  (void)first.get();
  EXPECT_EQ(std::ranges::count(bytes("run/results.csv"), '\n'), 4);
}

}  // namespace
}  // namespace ndtrain::ndp
