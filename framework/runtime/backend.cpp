#include "framework/runtime/backend.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <thread>

#include "framework/core/log.h"
#include "framework/core/plugin_file.h"

namespace ndtrain {
namespace {

std::unique_ptr<ThreadPool>& pool() {
  static std::unique_ptr<ThreadPool> threads;
  return threads;
}
std::mutex pool_mutex;

void host_parallel_for(int64_t n, int64_t grain, void (*body)(int64_t, int64_t, void*), void* arg) {
  shared_threads().parallel_for(n, grain,
                                [&](int64_t begin, int64_t end) { body(begin, end, arg); });
}

void host_log(int32_t level, const char* message) {
  constexpr auto kHighest = static_cast<int32_t>(log::Level::kError);
  log::write(static_cast<log::Level>(std::min(std::max(level, 0), kHighest)), message);
}

// Lives as long as the process, since plugins are never unloaded.
const ndt_host& host() {
  static const ndt_host h{
      .threads = shared_threads().threads(), .parallel_for = host_parallel_for, .log = host_log};
  return h;
}

}  // namespace

ThreadPool& shared_threads() {
  const std::lock_guard lock(pool_mutex);
  if (!pool()) {
    pool() = std::make_unique<ThreadPool>(std::max(1U, std::thread::hardware_concurrency()));
  }
  return *pool();
}

void set_threads(int threads) {
  if (threads < 1) throw Error("threads: at least 1 is needed, not ", threads);
  const std::lock_guard lock(pool_mutex);
  if (!pool() || pool()->threads() != threads) pool() = std::make_unique<ThreadPool>(threads);
}

const Backend& Backend::load(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Backend>> loaded;
  const std::lock_guard lock(mutex);
  if (const auto it = loaded.find(path); it != loaded.end()) return *it->second;

  const auto entry =
      reinterpret_cast<ndt_backend_main_fn>(plugin_function("backend", path, "ndt_backend_main"));
  const ndt_backend* abi = entry(NDT_ABI_VERSION, &host());
  if (!abi) throw Error("backend: ", path, " cannot serve this program");
  if (abi->version != NDT_ABI_VERSION) {
    throw Error("backend: ", path, " speaks version ", abi->version, " of the plugin interface, ",
                NDT_ABI_VERSION, " is needed; rebuild it");
  }
  auto backend = std::unique_ptr<Backend>(new Backend(abi, path));
  return *loaded.emplace(path, std::move(backend)).first->second;
}

const Backend& Backend::find(std::string_view name) {
  if (name == "auto") {
    const std::vector<std::string> all = available();
    return find(all.empty() ? "cpu" : all[0]);  // whose error says where it was looked for
  }
  const Backend* found = nullptr;
  load_plugin("backend", name, [&](const std::string& path) { found = &load(path); });
  return *found;
}

std::span<const char* const> Backend::known() {
  static constexpr const char* kNames[] = {"cuda", "onednn", "cpu"};
  return kNames;
}

std::string Backend::refusal(const std::string& name) {
  const std::vector<std::string> paths = plugin_files(name);
  if (paths.empty()) {
    return fmt::format("not built: no {} in {}", plugin_file_name(name),
                       fmt::join(plugin_directories(), ", "));
  }
  std::string reasons;
  for (const std::string& path : paths) {
    try {
      const Backend& b = load(path);
      int32_t devices = 0;
      const ndt_status asked = b.abi().device_count(&devices);
      return asked == NDT_OK && devices > 0 ? "" : b.abi().last_error();
    } catch (const Error& e) {
      reasons += (reasons.empty() ? "" : "; ") + std::string(e.what());
    }
  }
  return reasons;
}

std::vector<std::string> Backend::available() {
  std::vector<std::string> names;
  for (const char* name : known()) {
    if (refusal(name).empty()) names.emplace_back(name);
  }
  return names;
}

bool Backend::reads_tuning() const { return abi_->device_numerics != nullptr; }

void Backend::check(ndt_status s, const std::string& what) const {
  if (s == NDT_OUT_OF_MEMORY) throw OutOfMemory(name(), ": ", what, ": ", abi_->last_error());
  if (s != NDT_OK) throw Error(name(), ": ", what, ": ", abi_->last_error());
}

}  // namespace ndtrain
