#include "tests/cuda/cases.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ndtrain {
namespace {

struct Loaded {
  std::unique_ptr<Plugin> plugin;
  bool device = false;
  std::string why_not;
};

const Loaded& loaded() {
  static const Loaded one = [] {
    Loaded l;
    const char* list = std::getenv("NDTRAIN_BACKEND_PATH");
    const std::string paths = list ? list : ".";
    const std::string path = paths.substr(0, paths.find(':')) + "/libndt_cuda.so";
    l.plugin = Plugin::load(path);
    if (!l.plugin) {
      const char* missing = dlopen(path.c_str(), RTLD_NOW) ? nullptr : dlerror();
      if (missing && std::strstr(missing, "libcuda.so.1")) l.why_not = missing;
      return l;
    }
    int32_t count = 0;
    EXPECT_EQ(l.plugin->abi().device_count(&count), NDT_OK);
    l.device = count > 0;
    if (count == 0) l.why_not = l.plugin->abi().last_error();
    return l;
  }();
  return one;
}

bool alike(const Ports& a, const Ports& b) {
  const auto same = [](const ndt_tensor_type& x, const ndt_tensor_type& y) {
    return std::equal(x.strides, x.strides + x.rank, y.strides);
  };
  return std::equal(a.in.begin(), a.in.end(), b.in.begin(), same) &&
         std::equal(a.out.begin(), a.out.end(), b.out.begin(), same);
}

Ports images_last(const NodeRun& run) {
  Ports ports = plain_ports(run);
  for (size_t i = 0; i < ports.in.size(); ++i) {
    if (ports.in[i].rank == 4 && !run.constant[i]) make_last(ports.in[i]);
  }
  return ports;
}

}  // namespace

Plugin* cuda_plugin() {
  const bool driverless = !loaded().plugin && !loaded().why_not.empty();
  EXPECT_TRUE(loaded().plugin || driverless) << "no cuda plugin in $NDTRAIN_BACKEND_PATH";
  return loaded().device ? loaded().plugin.get() : nullptr;
}

const std::string& why_not() { return loaded().why_not; }

std::vector<Ports> cuda_ways(const NodeRun& run) {
  std::vector<Ports> ways = {plain_ports(run)};
  for (const Ports& start : {plain_ports(run), images_last(run)}) {
    const std::optional<Ports> wanted = cuda_plugin()->prefer(run, start);
    if (!wanted) continue;
    const bool known = std::ranges::any_of(ways, [&](const Ports& w) { return alike(w, *wanted); });
    if (!known) ways.push_back(*wanted);
  }
  return ways;
}

}  // namespace ndtrain
