#include "framework/sparse/control/bandwidth_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr double kMemory = 0.9, kRise = 1.1, kLeastFall = 0.75, kNoWait = 0.05;

std::string or_nothing(const std::optional<double>& number) {
  return number ? fmt::format("{:.4g}", *number) : "nothing";
}

}  // namespace

BandwidthEstimate::BandwidthEstimate(double jump) : jump_(jump) {
  if (!(jump > 1)) throw Error("bandwidth: a link is another one at ", jump, " times, not above 1");
}

void BandwidthEstimate::set(double mbps) { mbps_ = std::clamp(mbps, kLeastMbps, kMostMbps); }

std::string BandwidthEstimate::begin(const Measured& m, double goodput_mbps, double per_received) {
  const double wait = m.wait_part.value_or(0);
  received_ = m.receive_mbps.value_or(0);
  if (wait >= kNoWait) {
    set(goodput_mbps * (1 - wait));
  } else {
    double most = received_ * per_received;
    // Waiting grows with what travels, in proportion to it at most.
    const auto times_computing = [](double r) { return r / (1 - r); };
    if (wait > 0) {
      most = std::min(most, goodput_mbps * times_computing(kNoWait) / times_computing(wait));
    }
    set(std::max(goodput_mbps, most));
  }
  return fmt::format("B begins as {:.4g} Mb/s: received {}, goodput {:.4g}, r {:.3f}", mbps_,
                     or_nothing(m.receive_mbps), goodput_mbps, wait);
}

std::string BandwidthEstimate::update(const Measured& m) {
  if (mbps_ == 0) throw Error("bandwidth: there is no estimate to update");
  const double before = mbps_, wait = m.wait_part.value_or(0);
  if (m.receive_mbps && received_ > 0 && m.wait_part) {
    const double ratio = *m.receive_mbps / received_;
    if (wait < kNoWait ? ratio >= jump_ : ratio <= 1 / jump_) {
      const double received = std::exchange(received_, *m.receive_mbps);
      set(mbps_ * ratio);
      return fmt::format("B {:.4g} Mb/s, {:.4g} x {:.3f}: received {:.4g}, before {:.4g}; r {:.3f}",
                         mbps_, before, ratio, received_, received, wait);
    }
    if (ratio < jump_ && ratio > 1 / jump_) received_ = *m.receive_mbps;
  } else if (m.receive_mbps && received_ == 0) {
    received_ = *m.receive_mbps;
  }
  double by = 1;
  if (m.wait_part) by = wait < kNoWait ? kRise : std::max(kLeastFall, 1 - wait);
  const double mean = m.receive_mbps ? kMemory * mbps_ + (1 - kMemory) * *m.receive_mbps : mbps_;
  set(mean * by);
  return fmt::format("B {:.4g} Mb/s, (.9 x {:.4g} + .1 x {}) x {:.3f}: r {}", mbps_, before,
                     or_nothing(m.receive_mbps), by, or_nothing(m.wait_part));
}

}  // namespace ndtrain
