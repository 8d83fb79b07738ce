#include "backends/plugin/host.h"

namespace ndtrain::plugin {
namespace {

ndt_host the_host{};

}  // namespace

const ndt_backend* enter(int32_t version, const ndt_host* host,
                         const ndt_backend* (*table)()) noexcept {
  if (version != NDT_ABI_VERSION || !host || !host->parallel_for) return nullptr;
  the_host = *host;
  try {
    return table();
  } catch (...) {
    return nullptr;
  }
}

const ndt_host& host() { return the_host; }

void log(Level level, const std::string& text) {
  if (the_host.log) the_host.log(static_cast<int32_t>(level), text.c_str());
}

int threads() { return OneThread::asked() ? 1 : std::max(1, the_host.threads); }

}  // namespace ndtrain::plugin
