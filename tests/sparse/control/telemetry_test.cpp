#include "framework/sparse/control/telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/sparse/control/telemetry_window.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

Telemetry of(int rank, int64_t step, double wait_ms = 0, double receive_mbps = 100) {
  return {.rank = rank,
          .step = step,
          .batch = 32,
          .drop = 0.9,
          .send_mbps = 90,
          .receive_mbps = receive_mbps,
          .forward_ms = 50,
          .backward_ms = 100,
          .backward_forward_gap_ms = wait_ms,
          .in_forward_gap_ms = 0};
}

TEST(Telemetry, IsRefusedByTheNameOfWhatCannotBe) {
  EXPECT_EQ(fault_of(of(0, 0)), "");
  using Member = double Telemetry::*;
  const std::pair<Member, const char*> members[] = {
      {&Telemetry::send_mbps, "send_mbps"},
      {&Telemetry::receive_mbps, "receive_mbps"},
      {&Telemetry::forward_ms, "forward_ms"},
      {&Telemetry::backward_ms, "backward_ms"},
      {&Telemetry::backward_forward_gap_ms, "backward_forward_gap_ms"},
      {&Telemetry::in_forward_gap_ms, "in_forward_gap_ms"}};
  for (const auto& [member, name] : members) {
    for (const double bad : {-1e-9, 3.7e6, double{NAN}, double{INFINITY}, -double{INFINITY}}) {
      Telemetry t = of(0, 0);
      t.*member = bad;
      EXPECT_THAT(fault_of(t), HasSubstr(std::string(name) + " is ")) << bad;
    }
    Telemetry t = of(0, 0);
    t.*member = 0;
    EXPECT_EQ(fault_of(t), std::string(name) == "backward_ms" ? "backward_ms is 0" : "");
  }
  Telemetry t = of(0, 0);
  t.batch = 0;
  EXPECT_EQ(fault_of(t), "batch is 0");
  for (const double bad : {-0.1, 1.0, double{NAN}}) {
    t = of(0, 0);
    t.drop = bad;
    EXPECT_THAT(fault_of(t), HasSubstr("drop is"));
  }
}

TEST(TelemetryWindow, KnowsWhatIsCompleteAndWhatIsNewest) {
  TelemetryWindow w(2, 9);
  EXPECT_EQ(w.newest(), 9);
  w.add(of(0, 10), true);
  EXPECT_EQ(w.newest(), 10);
  EXPECT_EQ(w.complete(), 9);
  EXPECT_EQ(w.summary(0).steps, 0);
  EXPECT_EQ(w.summary(0).wait_part(), std::nullopt);
  EXPECT_EQ(w.summary(0).receive_mbps, std::nullopt);
  w.add(of(1, 10), true);
  EXPECT_EQ(w.complete(), 10);
  EXPECT_EQ(w.summary(0).steps, 1);
}

TEST(TelemetryWindow, TakesTheLeastWaitTheMeanOfComputingAndTheSlowestLink) {
  TelemetryWindow w(2, -1);
  Telemetry slow = of(1, 0, 20, 40);
  slow.backward_ms = 300;
  slow.in_forward_gap_ms = 7;
  w.add(of(0, 0, 30, 50), true);
  w.add(slow, true);
  const TelemetryWindow::Summary s = w.summary(0);
  EXPECT_DOUBLE_EQ(s.wait_ms, 27);
  EXPECT_DOUBLE_EQ(s.computing_ms, 1.5 * 200);
  EXPECT_DOUBLE_EQ(*s.wait_part(), 27.0 / 327);
  EXPECT_DOUBLE_EQ(*s.receive_mbps, 40);
  w.add(of(0, 1, 30, 0), true);  // received nothing: the other one's counts
  w.add(of(1, 1, 30, 60), true);
  w.forget();
  w.add(of(0, 2, 30, 0), true);
  w.add(of(1, 2, 30, 60), true);
  EXPECT_DOUBLE_EQ(*w.summary(0).receive_mbps, 60);
}

TEST(TelemetryWindow, TakesMediansSoThatAJumpCountsForNothing) {
  TelemetryWindow w(2, -1);
  const double waits[] = {5, 3e6, 4, 6, 0}, rates[] = {100, 1e6, 101, 1e-3, 99};
  for (int64_t step = 0; step < 5; ++step) {
    for (const int rank : {0, 1}) w.add(of(rank, step, waits[step], rates[step]), true);
  }
  EXPECT_DOUBLE_EQ(w.summary(0).wait_ms, 5);
  EXPECT_DOUBLE_EQ(*w.summary(0).receive_mbps, 100);
  EXPECT_DOUBLE_EQ(w.summary(2).wait_ms, 4);  // of 4, 6 and 0
  EXPECT_EQ(w.summary(5).steps, 0);
  EXPECT_DOUBLE_EQ(*w.summary(5).receive_mbps, 100);
}

TEST(TelemetryWindow, CountsNoWaitsOfStepsThatAreNotAsToldOrHaveAGap) {
  TelemetryWindow w(2, -1);
  w.add(of(0, 0, 5), true);
  w.add(of(1, 0, 5), false);
  w.add(of(0, 1, 5), true);
  w.add(of(0, 2, 8), true);
  w.add(of(1, 2, 8), true);  // and nothing of step 1
  EXPECT_EQ(w.complete(), 2);
  EXPECT_EQ(w.summary(0).steps, 1);
  EXPECT_DOUBLE_EQ(w.summary(0).wait_ms, 8);
}

TEST(TelemetryWindow, KeepsWhatIsNotComplete) {
  TelemetryWindow w(2, -1);
  w.add(of(0, 0), true);
  w.add(of(0, 1, 9), true);
  w.add(of(1, 0), true);
  w.forget();
  w.add(of(1, 1, 9), true);
  EXPECT_EQ(w.summary(0).steps, 1);
  EXPECT_DOUBLE_EQ(w.summary(0).wait_ms, 9);
  for (int64_t step = 2; step < 1000; ++step) w.add(of(0, step), true);
  for (int64_t step = 2; step < 1000; ++step) w.add(of(1, step), true);
  EXPECT_EQ(w.summary(0).steps, static_cast<int>(TelemetryWindow::kSteps));
}

}  // namespace
}  // namespace ndtrain
