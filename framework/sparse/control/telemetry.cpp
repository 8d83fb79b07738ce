#include "framework/sparse/control/telemetry.h"

#include <fmt/format.h>

#include <string_view>

namespace ndtrain {
namespace {

constexpr double kHourMs = 3.6e6, kMostMbps = 1e6;

}  // namespace

std::string fault_of(const Telemetry& t) {
  if (t.batch < 1) return fmt::format("batch is {}", t.batch);
  if (!(t.drop >= 0 && t.drop < 1)) return fmt::format("drop is {}", t.drop);
  struct Member {
    std::string_view name;
    double value, most;
  };
  const Member members[] = {{"send_mbps", t.send_mbps, kMostMbps},
                            {"receive_mbps", t.receive_mbps, kMostMbps},
                            {"forward_ms", t.forward_ms, kHourMs},
                            {"backward_ms", t.backward_ms, kHourMs},
                            {"backward_forward_gap_ms", t.backward_forward_gap_ms, kHourMs},
                            {"in_forward_gap_ms", t.in_forward_gap_ms, kHourMs}};
  for (const Member& m : members) {
    if (m.value >= 0 && m.value <= m.most) continue;
    return fmt::format("{} is {}, not from 0 to {:g}", m.name, m.value, m.most);
  }
  if (t.backward_ms == 0) return "backward_ms is 0";
  return "";
}

}  // namespace ndtrain
