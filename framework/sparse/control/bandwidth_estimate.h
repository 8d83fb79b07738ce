// B, the Mb/s that selections are made for (StellaTrain, section 4). It is no rate of a link: it
// rises until ranks wait, so that whatever a step does beside its backward pass, and whatever
// goodput_mbps() does not know of, is in it.
#pragma once

#include <optional>
#include <string>

namespace ndtrain {

class BandwidthEstimate {
 public:
  static constexpr double kLeastMbps = 1e-3, kMostMbps = 1e6;

  // Of the steps since the last update.
  struct Measured {
    std::optional<double> receive_mbps;  // of the rank that received slowest, above 0; none:
                                         // nothing was received
    // Of a step with what is in force since the last update; none: there was not one yet.
    std::optional<double> wait_part;  // r = w / (w + c), computing_ms() of Telemetry for c
  };

  // `jump`: a link is another one where it receives so many times more or less than it did at the
  // last update, and ranks wait, or do not, accordingly; above 1. Infinite: none ever is, as
  // StellaTrain has it, where rising five times takes eight updates and more.
  explicit BandwidthEstimate(double jump);

  // The first: what is in force needs `goodput_mbps`. Where ranks wait for it, the part of it that
  // gets through. Where they do not, what fills the link, `per_received` Mb/s for each that is
  // received; if they wait a little (r > 0), at most what lets them wait as long as none may (r =
  // .05), for what travels beside no computing; and at least what gets through already. Says what
  // it went by.
  std::string begin(const Measured& m, double goodput_mbps, double per_received);

  // B = .9 B + .1 received; then times 1.1 where r < .05, else times max(.75, 1 - r). Where the
  // link is another one, in place of this B in proportion. What was not measured changes nothing.
  // Says what it went by. Throws Error before begin().
  std::string update(const Measured& m);

  double mbps() const { return mbps_; }  // 0 before begin()

 private:
  void set(double mbps);

  double jump_;
  double mbps_ = 0;
  double received_ = 0;  // at the last update; 0: never
};

}  // namespace ndtrain
