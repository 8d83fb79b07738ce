#include "framework/runtime/backend.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "framework/core/fs.h"
#include "framework/core/log.h"

namespace ndtrain {
namespace {

constexpr const char* kPrefix = "libndt_";
constexpr const char* kSuffix = ".so";

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

std::string program_directory() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n <= 0 ? "." : parent_of(std::string_view(path, static_cast<size_t>(n)));
}

std::vector<std::string> search_path() {
  std::vector<std::string> directories;
  if (const char* list = std::getenv("NDTRAIN_BACKEND_PATH")) {
    std::istringstream in(list);
    for (std::string d; std::getline(in, d, ':');) {
      if (!d.empty()) directories.push_back(d);
    }
    return directories;
  }
  const std::string program = program_directory();
  directories.push_back(join(program, "ndtrain-backends"));
  directories.push_back(join(parent_of(program), "lib/ndtrain/backends"));
  directories.push_back(NDT_BACKEND_INSTALL_DIR);
  return directories;
}

// Instruction sets this CPU has, best first; "" is the build for every CPU.
std::vector<std::string> levels() {
  std::vector<std::string> names;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) names.emplace_back("x86-64-v4");
  if (__builtin_cpu_supports("x86-64-v3")) names.emplace_back("x86-64-v3");
#endif
  names.emplace_back("");
  return names;
}

// Where the plugin `name` is, in the order in which to try.
std::vector<std::string> candidates(std::string_view name) {
  const std::string file = kPrefix + std::string(name) + kSuffix;
  std::vector<std::string> found;
  for (const std::string& directory : search_path()) {
    for (const std::string& level : levels()) {
      const std::string path = join(level.empty() ? directory : join(directory, level), file);
      if (real_fs().exists(path)) found.push_back(path);
    }
  }
  return found;
}

// The loader names what is missing, and not always for whom.
std::string why_not_loaded(const std::string& path, const std::string& text) {
  if (text.starts_with("libcuda.so.1: cannot open")) {
    return "there is no NVIDIA driver on this machine: " + path + " needs libcuda.so.1";
  }
  return text.starts_with(path) ? text : path + ": " + text;
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

  void* lib = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!lib) throw Error("backend: ", why_not_loaded(path, dlerror()));
  const auto entry = reinterpret_cast<ndt_backend_main_fn>(dlsym(lib, "ndt_backend_main"));
  if (!entry) throw Error("backend: ", path, " does not export ndt_backend_main");
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
  std::string tried;
  for (const std::string& path : candidates(name)) {
    try {
      return load(path);
    } catch (const Error& e) {
      tried += std::string("\n  ") + e.what();
    }
  }
  for (const std::string& directory : search_path()) tried += "\n  looked in " + directory;
  throw Error("no backend '", name, "' was found; set NDTRAIN_BACKEND_PATH to where ", kPrefix,
              name, kSuffix, " is", tried);
}

std::span<const char* const> Backend::known() {
  static constexpr const char* kNames[] = {"cuda", "onednn", "cpu"};
  return kNames;
}

std::string Backend::refusal(const std::string& name) {
  const std::vector<std::string> paths = candidates(name);
  if (paths.empty()) {
    return fmt::format("not built: no {}{}{} in {}", kPrefix, name, kSuffix,
                       fmt::join(search_path(), ", "));
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
