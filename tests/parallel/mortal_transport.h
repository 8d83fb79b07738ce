// A rank that dies in the middle of what it says.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/transport.h"

namespace ndtrain::testing {

inline constexpr int64_t kForever = INT64_MAX;

// Dies when it is to send or receive once more than `most` times.
class MortalTransport final : public Transport {
 public:
  MortalTransport(std::unique_ptr<Transport> inner, int64_t most)
      : inner_(std::move(inner)), left_(most) {}

  int rank() const override { return inner_->rank(); }
  int ranks() const override { return inner_->ranks(); }
  std::string peer(int rank) const override { return inner_->peer(rank); }
  Request send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    live();
    return inner_->send(to, tag, bytes);
  }
  Request receive(int from, uint64_t tag, std::span<std::byte> into) override {
    live();
    return inner_->receive(from, tag, into);
  }
  void poll(std::vector<Done>& done, std::chrono::nanoseconds patience) override {
    inner_->poll(done, patience);
  }
  void wake() override { inner_->wake(); }
  void cancel() override { inner_->cancel(); }
  void begin_generation(uint32_t generation, std::span<const int> members) override {
    inner_->begin_generation(generation, members);
  }
  uint32_t later_generation() override { return inner_->later_generation(); }

 private:
  void live() {
    if (left_-- <= 0) throw std::runtime_error("this rank dies");
  }
  const std::unique_ptr<Transport> inner_;
  int64_t left_;
};

}  // namespace ndtrain::testing
