#include "framework/sparse/control/telemetry_window.h"

#include <algorithm>
#include <functional>

namespace ndtrain {
namespace {

// The lower one of an even number.
template <typename T, typename Key>
const T& median_by(std::vector<T>& values, Key key) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, middle, {}, key);
  return *middle;
}

struct Wait {
  double wait_ms, computing_ms;
  double part() const { return wait_ms / (wait_ms + computing_ms); }
};

}  // namespace

TelemetryWindow::TelemetryWindow(int ranks, int64_t before)
    : last_(static_cast<size_t>(ranks), before) {}

void TelemetryWindow::add(const Telemetry& t, bool as_told) {
  last_[static_cast<size_t>(t.rank)] = t.step;
  Step& step = steps_[t.step];
  step.least_wait_ms = step.told == 0 ? t.wait_ms() : std::min(step.least_wait_ms, t.wait_ms());
  step.computing_ms += t.computing_ms();
  step.as_told = step.as_told && as_told;
  ++step.told;
  if (t.receive_mbps > 0) {
    step.receive_mbps = std::min(step.receive_mbps.value_or(t.receive_mbps), t.receive_mbps);
  }
  if (steps_.size() > kSteps) steps_.erase(steps_.begin());
}

int64_t TelemetryWindow::newest() const { return std::ranges::max(last_); }
int64_t TelemetryWindow::complete() const { return std::ranges::min(last_); }

std::optional<double> TelemetryWindow::Summary::wait_part() const {
  if (steps == 0) return std::nullopt;
  return Wait{wait_ms, computing_ms}.part();
}

TelemetryWindow::Summary TelemetryWindow::summary(int64_t settled) const {
  std::vector<Wait> waits;
  std::vector<double> rates;
  for (const auto& [number, step] : steps_) {
    if (step.told != static_cast<int>(last_.size())) continue;
    if (step.receive_mbps) rates.push_back(*step.receive_mbps);
    if (number < settled || !step.as_told) continue;
    waits.push_back({.wait_ms = step.least_wait_ms, .computing_ms = step.computing_ms / step.told});
  }
  Summary s;
  s.steps = static_cast<int>(waits.size());
  if (!waits.empty()) {
    const Wait& wait = median_by(waits, &Wait::part);
    s.wait_ms = wait.wait_ms;
    s.computing_ms = wait.computing_ms;
  }
  if (!rates.empty()) s.receive_mbps = median_by(rates, std::identity());
  return s;
}

void TelemetryWindow::forget() { steps_.erase(steps_.begin(), steps_.upper_bound(complete())); }

}  // namespace ndtrain
