#include "ndp/engine/energy.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ndtrain::ndp {

EnergyMeter::EnergyMeter(Fs& fs, std::string root, const std::string& nvml)
    : fs_(fs), root_(std::move(root)), gpus_(nvml) {
  const Result<std::vector<std::string>> names = fs_.list(root_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    // "intel-rapl:0" is a package; "intel-rapl:0:1" a part of it.
    if (!name.starts_with("intel-rapl:") || std::ranges::count(name, ':') != 1) continue;
    const auto now = number(name, "energy_uj"), range = number(name, "max_energy_range_uj");
    if (now && range) packages_[name] = {*now, *range};
  }
}

// These files say that they have 4096 bytes and hold a few.
std::optional<uint64_t> EnergyMeter::number(const std::string& package,
                                            const std::string& name) const {
  const auto file = fs_.open(join(join(root_, package), name), Fs::Mode::kRead);
  if (!file.ok()) return std::nullopt;
  std::array<char, 32> text{};
  const Result<size_t> n = (*file)->read_at(0, std::as_writable_bytes(std::span(text)));
  uint64_t value = 0;
  if (!n.ok() || std::from_chars(text.data(), text.data() + *n, value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> EnergyMeter::take() {
  const std::optional<double> processors = packages(), gpus = gpus_.take();
  if (!processors || !gpus) return processors ? processors : gpus;
  return *processors + *gpus;
}

std::optional<double> EnergyMeter::packages() {
  if (packages_.empty()) return std::nullopt;
  double joules = 0;
  for (auto& [name, package] : packages_) {
    const auto now = number(name, "energy_uj");
    if (!now) return std::nullopt;
    const uint64_t used =
        *now >= package.last ? *now - package.last : *now + package.range - package.last;
    joules += static_cast<double>(used) / 1e6;
    package.last = *now;
  }
  return joules;
}

}  // namespace ndtrain::ndp
