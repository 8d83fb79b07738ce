#include "framework/runtime/copy_rate.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

namespace ndtrain {
namespace {

constexpr size_t kProbeBytes = size_t{64} << 20;
constexpr int kRounds = 5;  // the first one wakes the link up

template <typename F>
double rate_of(const F& copy) {
  double best = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    copy();
    const double s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(kProbeBytes) / std::max(s, 1e-9));
  }
  return best;
}

}  // namespace

CopyRates copy_rates(const Device& device) {
  if (device.shares_host_memory()) return {};
  const DeviceBuffer there(device, kProbeBytes);
  void* pinned = nullptr;
  device.backend().check(device.abi().host_alloc(device.handle(), kProbeBytes, &pinned),
                         "pin memory");
  const auto release = [&](void* p) { device.abi().host_free(device.handle(), p); };
  const std::unique_ptr<void, decltype(release)> here(pinned, release);
  std::memset(pinned, 0, kProbeBytes);
  return {.to_device = rate_of([&] { device.upload(there.data(), pinned, kProbeBytes); }),
          .from_device = rate_of([&] { device.download(pinned, there.data(), kProbeBytes); })};
}

}  // namespace ndtrain
