#include "tests/runtime/onednn_cases.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace ndtrain {

Plugin* onednn() {
  static const std::unique_ptr<Plugin> plugin = [] {
    const char* directory = std::getenv("NDTRAIN_BACKEND_PATH");
    return Plugin::load(std::string(directory ? directory : ".") + "/libndt_onednn.so");
  }();
  EXPECT_NE(plugin, nullptr) << "no onednn plugin in $NDTRAIN_BACKEND_PATH";
  return plugin.get();
}

int channel_block() {
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  const bool masked = isa && std::string_view(isa).starts_with("AVX2");
  return !masked && __builtin_cpu_supports("avx512bw") ? 16 : 8;
}

Ports ports_from(const NodeRun& node, Start start) {
  Ports ports = plain_ports(node);
  for (size_t i = 0; i < ports.in.size(); ++i) {
    ndt_tensor_type& t = ports.in[i];
    if (t.rank != 4 || node.constant[i]) continue;
    if (start == Start::kBlocked) make_blocked(t, channel_block());
    if (start == Start::kLast) make_last(t);
  }
  return ports;
}

}  // namespace ndtrain
