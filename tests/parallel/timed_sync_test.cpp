#include "framework/parallel/timed_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ndtrain {
namespace {

using std::chrono::milliseconds;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

// Of two slots; says what it waits for, and takes its time.
class SlowSync final : public GradientSync {
 public:
  explicit SlowSync(ManualClock& clock) : clock_(clock) {}

  void begin(const HyperParameters&) override { calls += "begin "; }
  void before_read(size_t slot, ndt_stream*) override {
    calls += "read" + std::to_string(slot) + " ";
    wait(milliseconds(7));
    clock_.advance(milliseconds(2));  // an update
  }
  void forward_done() override { calls += "loss "; }
  void gradient_ready(size_t slot, ndt_stream*) override {
    calls += "ready" + std::to_string(slot) + " ";
  }
  void share(std::span<ShardReport>) override { wait(milliseconds(11)); }
  void backward_done() override { calls += "done "; }
  void skip() override { calls += "skip "; }
  void flush() override {
    calls += "flush ";
    clock_.advance(milliseconds(1000));
  }

  std::string calls;
  double waited_s = 0;

 private:
  void wait(milliseconds t) {
    clock_.advance(t);
    waited_s += std::chrono::duration<double>(t).count();
  }
  ManualClock& clock_;
};

struct Timed {
  Timed() {
    auto slow = std::make_unique<SlowSync>(clock);
    inner = slow.get();
    timed = std::make_unique<TimedSync>(
        std::move(slow), std::vector<std::string>{"fc", "conv"}, [this] { return inner->waited_s; },
        clock);
  }

  // Of two shards: conv is read 3 ms after the beginning, its forward pass takes 10 ms, that of fc
  // 20; then comes a shard of 100 ms, 30 ms for the gradient of fc, 40 for that of conv, and 5
  // more.
  void step(bool whole = true) const {
    timed->begin({});
    clock.advance(milliseconds(3));
    timed->before_read(1, nullptr);
    clock.advance(milliseconds(10));
    timed->before_read(0, nullptr);
    clock.advance(milliseconds(20));
    timed->before_read(1, nullptr);
    inner->waited_s -= 0.007;  // the second time there is nothing to wait for
    clock.advance(milliseconds(100 - 9));
    if (whole) timed->forward_done();
    clock.advance(milliseconds(30));
    timed->gradient_ready(0, nullptr);
    clock.advance(milliseconds(40));
    timed->gradient_ready(1, nullptr);
    clock.advance(milliseconds(5));
    timed->share({});
    timed->backward_done();
  }

  mutable ManualClock clock;
  SlowSync* inner;
  std::unique_ptr<TimedSync> timed;
};

const auto ms = [](double x) { return DoubleNear(x * 1e-3, 1e-9); };

TEST(TimedSync, TellsForwardBackwardUpdateAndWaitingApart) {
  const Timed run;
  run.timed->restart(0, 10);
  run.step();
  run.step();
  run.timed->flush();
  const StepTimes t = run.timed->times();
  EXPECT_EQ(t.steps, 2);
  EXPECT_THAT(t.forward_s, ElementsAre(ms(20 + 100), ms(3 + 10 + 5)));
  EXPECT_THAT(t.backward_s, ElementsAre(ms(30), ms(40)));
  EXPECT_THAT(t.optimizer_s, ms(4));
  EXPECT_THAT(t.exposed_s, ms(7 + 7 + 11));
  EXPECT_THAT(t.computing_s(), ms(212));
  EXPECT_EQ(t.passes_s(), t.computing_s() - t.optimizer_s);
  EXPECT_THAT(t.step_s, ms(212 + 25));
}

TEST(TimedSync, PassesEveryCallOn) {
  const Timed run;
  run.step();
  run.timed->begin({});
  run.timed->skip();
  run.timed->flush();
  EXPECT_EQ(run.inner->calls, "begin read1 read0 read1 loss ready0 ready1 done begin skip flush ");
}

TEST(TimedSync, LeavesOutWarmUpAndWhatIsNoWholeStepAndKeepsNoMoreThanAsked) {
  const Timed run;
  run.timed->restart(1, 2);
  run.step();       // warms up
  run.step(false);  // has a shard without rows
  run.step();
  run.timed->flush();
  EXPECT_EQ(run.timed->times().steps, 1);
  EXPECT_EQ(run.timed->times().step_s, 0) << "no step followed it";
  for (int i = 0; i < 3; ++i) run.step();
  EXPECT_EQ(run.timed->times().steps, 2);
  EXPECT_EQ(run.timed->flushes(), 1);
  run.timed->restart(0, 2);
  EXPECT_EQ(run.timed->times().steps, 0);
}

TEST(TimedSync, KeepsSpansWhereSomebodyWantsThem) {
  const Timed run;
  run.step();
  EXPECT_TRUE(run.timed->take_spans().empty());
  run.timed->keep_spans(true);
  run.step();
  std::string names;
  for (const TimedSync::Span& s : run.timed->take_spans()) names += s.name + ", ";
  EXPECT_EQ(names,
            "forward conv, wait, update, forward conv, wait, update, forward fc, backward fc, "
            "backward conv, forward conv, wait, ");
}

}  // namespace
}  // namespace ndtrain
