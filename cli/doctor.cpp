#include <fmt/format.h>

#include <thread>

#include "cli/computing_args.h"
#include "cli/verb.h"
#include "framework/comm/comm_plugin.h"
#include "framework/core/memory.h"
#include "framework/runtime/copy_rate.h"
#include "framework/runtime/product_rate.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/photos/decode.h"
#include "ndp/rados/object_pool.h"
#include "ndp/s3/s3_fs.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// Measures the backend's first device: what a person reads of it, and `json`.
std::string examine(const std::string& name, const std::string& tuning, bool is_default,
                    Json& json) {
  const Backend& backend = Backend::find(name);
  const Device device(backend, {.tuning_file = backend.reads_tuning() ? tuning : ""});
  Json rates;
  std::string measured;
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    const double rate = product_rate(device, t);
    if (rate <= 0) continue;
    rates[std::string(name_of(t))] = rate;
    measured += fmt::format("{}{} {:.0f}", measured.empty() ? "" : ", ", name_of(t), rate / 1e9);
  }
  json = {{"name", name},
          {"numerics", backend.abi().numerics},
          {"path", backend.path()},
          {"operations_per_s", rates}};
  std::string text = fmt::format("backend {}{}  {}  ({})\n", name, is_default ? " (default)" : "",
                                 backend.abi().numerics, backend.path());
  if (const std::string what = device.description(); !what.empty()) {
    json["device"] = what;
    text += fmt::format("  {}\n", what);
  }
  text += fmt::format("  a convolution just now, 10^9 operations/s: {}\n", measured);
  if (!device.shares_host_memory()) {
    const CopyRates copies = copy_rates(device);
    json["bytes_per_s"] = {{"to_device", copies.to_device}, {"from_device", copies.from_device}};
    text += fmt::format("  copies just now: {:.1f} GB/s to the device, {:.1f} GB/s back\n",
                        copies.to_device / 1e9, copies.from_device / 1e9);
  }
  return text;
}

// Whether ranks can talk by the plugin: what a person reads of it, and `json`.
std::string examine_talk(const std::string& name, Json& json) {
  json = {{"name", name}};
  std::string why;
  try {
    const ndt_comm_plugin& plugin = find_comm_plugin(name);
    char device[256] = {};
    if (plugin.use_device && plugin.use_device(0, device, sizeof device) != NDT_COMM_OK) {
      why = plugin.last_error();
    } else {
      json["library"] = plugin.library;
      return fmt::format("ranks can talk by {} (--comm {})\n", plugin.library, name);
    }
  } catch (const Error& e) {
    why = e.what();
  }
  json["why_not"] = why;
  return fmt::format("ranks cannot talk by {}: {}\n", name, why);
}

std::string list_photo_libraries(Json& json) {
  std::string text;
  for (const PhotoLibrary& l : photo_libraries()) {
    json.push_back({{"use", l.use}});
    if (l.library.empty()) {
      json.back()["missing"] = {{"option", l.option}, {"package", l.package}};
      text += fmt::format("photos: {} not in this build ({}=ON, with {})\n", l.use, l.option,
                          l.package);
    } else {
      json.back()["library"] = l.library;
      text += fmt::format("photos: {} by {}\n", l.use, l.library);
    }
  }
  return text;
}

// Of a store of objects that a build reads, or does not.
std::string tell_of_objects(const char* name, const auto& build, Json& json) {
  if (!build.library.empty()) {
    json = {{"library", build.library}};
    return fmt::format("photos: from {} by {}\n", name, build.library);
  }
  json["missing"] = {{"option", build.option}, {"package", build.package}};
  return fmt::format("photos: from {} not in this build ({}=ON, with {})\n", name, build.option,
                     build.package);
}

}  // namespace

void declare_doctor(ArgsSpec& args) { declare_computing(args); }

// Every line is something that was asked of the machine just now.
int run_doctor(Context& context, const Args&) {
  const auto memory = static_cast<double>(usable_memory());
  const std::string cache = default_cache_directory();
  Json json = {{"version", NDT_VERSION},
               {"cores", std::thread::hardware_concurrency()},
               {"threads", shared_threads().threads()},
               {"memory_gib", memory / (1 << 30)}};
  int code = kOk;
  std::string backends;
  for (const std::string& name : Backend::available()) {
    backends += examine(name, context.device_options().tuning_file, backends.empty(),
                        json["backends"].emplace_back());
  }
  if (backends.empty()) {
    backends = "no backend loads: set NDTRAIN_BACKEND_PATH to where libndt_cpu.so is\n";
    code = kFailed;
  }
  for (const std::string name : Backend::known()) {
    const std::string why = Backend::refusal(name);
    if (why.empty()) continue;
    json["unavailable_backends"].push_back({{"name", name}, {"why", why}});
    backends += fmt::format("backend {} is not used: {}\n", name, why);
  }
  std::string talk;
  for (const std::string name : {"mpi", "nccl"}) {
    talk += examine_talk(name, json["communication"].emplace_back());
  }
  const std::string photos = list_photo_libraries(json["photos"]) +
                             tell_of_objects("S3", s3_build(), json["s3"]) +
                             tell_of_objects("RADOS", rados_build(), json["rados"]);
  std::string volume = cache;
  while (!volume.empty() && !context.fs().exists(volume)) volume = parent_of(volume);
  const Result<Space> space = context.fs().space(volume.empty() ? "/" : volume);
  json["cache"] = cache;
  std::string disk;
  if (space.ok()) {
    json["cache_free_bytes"] = space->free;
    disk = fmt::format(", {:.1f} GiB free", static_cast<double>(space->free) / (1 << 30));
  }
  context.print(
      json, fmt::format("ndtrain {}\n{} cores, {} threads, {:.1f} GiB memory\n{}{}{}cache {}{}\n",
                        NDT_VERSION, json["cores"].get<int>(), shared_threads().threads(),
                        memory / (1 << 30), backends, talk, photos, cache, disk));
  return code;
}

}  // namespace ndtrain::cli
