#include "framework/comm/comm_plugin.h"

#include "framework/core/error.h"
#include "framework/core/plugin_file.h"

namespace ndtrain {
namespace {

constexpr const char* kKind = "communication plugin";

bool is_complete(const ndt_comm_plugin& p) {
  return p.name && p.library && p.tags >= 0 && p.most_bytes >= (64 << 10) && p.last_error &&
         p.world && p.rank && p.size && p.host && p.close && p.abandon && p.send && p.receive &&
         p.test_some &&
         (!p.device_memory ||
          (p.use_device && p.unique_id && p.reduce_scatter && p.all_gather && p.all_reduce &&
           p.reduce && p.broadcast && p.group_begin && p.group_end));
}

}  // namespace

const ndt_comm_plugin& find_comm_plugin(std::string_view name) {
  const ndt_comm_plugin* found = nullptr;
  load_plugin(kKind, name, [&](const std::string& path) { found = &load_comm_plugin(path); });
  return *found;
}

const ndt_comm_plugin& load_comm_plugin(const std::string& path) {
  const auto entry =
      reinterpret_cast<ndt_comm_main_fn>(plugin_function(kKind, path, "ndt_comm_main"));
  const ndt_comm_plugin* const plugin = entry(NDT_COMM_VERSION);
  if (!plugin) throw Error(kKind, ": ", path, " cannot serve this program");
  if (plugin->version != NDT_COMM_VERSION) {
    throw Error(kKind, ": ", path, " speaks version ", plugin->version, " of the interface, ",
                NDT_COMM_VERSION, " is needed; rebuild it");
  }
  if (!is_complete(*plugin)) throw Error(kKind, ": ", path, " lacks a part of the interface");
  return *plugin;
}

ndt_comm* launched_world(const ndt_comm_plugin& plugin) {
  ndt_comm* comm = nullptr;
  if (plugin.world(nullptr, 0, -1, -1, &comm) != NDT_COMM_OK) {
    throw Error(plugin.name, ": ", plugin.last_error());
  }
  return comm;
}

}  // namespace ndtrain
