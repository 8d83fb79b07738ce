// So many requests per second for each client. A pure state machine; one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_map>

namespace ndtrain::ndp {

class RateLimiter {
 public:
  using Time = std::chrono::nanoseconds;  // on a monotonic clock

  // `rate` 0: no quota. A client that was quiet may ask for a second's worth at once.
  explicit RateLimiter(double rate) : rate_(rate) {}

  bool take(Time now, const std::string& client) {
    if (rate_ <= 0) return true;
    if (clients_.size() >= kClients) forget_rested(now);
    const auto [it, fresh] = clients_.try_emplace(client, Bucket{burst(), now});
    Bucket& b = it->second;
    b.tokens = std::min(burst(), b.tokens + rate_ * seconds(now - b.at));
    b.at = now;
    if (b.tokens < 1) return false;
    b.tokens -= 1;
    return true;
  }

  size_t clients() const { return clients_.size(); }

 private:
  static constexpr size_t kClients = 10'000;
  struct Bucket {
    double tokens;
    Time at;
  };

  static double seconds(Time t) { return std::chrono::duration<double>(t).count(); }
  double burst() const { return std::max(1.0, rate_); }
  void forget_rested(Time now) {
    std::erase_if(clients_, [&](const auto& c) {
      return c.second.tokens + rate_ * seconds(now - c.second.at) >= burst();
    });
  }

  double rate_;
  std::unordered_map<std::string, Bucket> clients_;
};

}  // namespace ndtrain::ndp
