#include <fmt/format.h>
#include <unistd.h>

#include <thread>

#include "cli/verb.h"
#include "ndp/jobs/photo_set.h"

namespace ndtrain::cli {

void declare_doctor(ArgsSpec&) {}

// Every line is something that was asked of the machine just now.
int run_doctor(Context& context, const Args&) {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const std::string cache = default_cache_directory();
  Json json = {{"version", NDT_VERSION},
               {"cores", std::thread::hardware_concurrency()},
               {"threads", shared_threads().threads()},
               {"memory_gib", memory / (1 << 30)}};
  int code = kOk;
  std::string backends;
  for (const std::string& name : Backend::available()) {
    const Backend& b = Backend::find(name);
    json["backends"].push_back(
        {{"name", name}, {"numerics", b.abi().numerics}, {"path", b.path()}});
    backends += fmt::format("backend {}  {}  ({})\n", name, b.abi().numerics, b.path());
  }
  if (backends.empty()) {
    backends = "no backend loads: set NDTRAIN_BACKEND_PATH to where libndt_cpu.so is\n";
    code = kFailed;
  }
  std::string volume = cache;
  while (!volume.empty() && !context.fs().exists(volume)) volume = parent_of(volume);
  const Result<Space> space = context.fs().space(volume.empty() ? "/" : volume);
  json["cache"] = cache;
  std::string disk;
  if (space.ok()) {
    json["cache_free_bytes"] = space->free;
    disk = fmt::format(", {:.1f} GiB free", static_cast<double>(space->free) / (1 << 30));
  }
  context.print(json,
                fmt::format("ndtrain {}\n{} cores, {} threads, {:.1f} GiB memory\n{}cache {}{}\n",
                            NDT_VERSION, json["cores"].get<int>(), shared_threads().threads(),
                            memory / (1 << 30), backends, cache, disk));
  return code;
}

}  // namespace ndtrain::cli
