#include "framework/core/plugin_file.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <sstream>

#include "framework/core/error.h"
#include "framework/core/fs.h"

namespace ndtrain {
namespace {

std::string program_directory() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n <= 0 ? "." : parent_of(std::string_view(path, static_cast<size_t>(n)));
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

// The loader names what is missing, and not always for whom.
std::string why_not_loaded(const std::string& path, const std::string& text) {
  if (text.starts_with("libcuda.so.1: cannot open")) {
    return "there is no NVIDIA driver on this machine: " + path + " needs libcuda.so.1";
  }
  return text.starts_with(path) ? text : path + ": " + text;
}

}  // namespace

std::vector<std::string> plugin_directories() {
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

std::string plugin_file_name(std::string_view name) {
  return "libndt_" + std::string(name) + ".so";
}

std::vector<std::string> plugin_files(std::string_view name) {
  const std::string file = plugin_file_name(name);
  std::vector<std::string> found;
  for (const std::string& directory : plugin_directories()) {
    for (const std::string& level : levels()) {
      const std::string path = join(level.empty() ? directory : join(directory, level), file);
      if (real_fs().exists(path)) found.push_back(path);
    }
  }
  return found;
}

void load_plugin(std::string_view kind, std::string_view name,
                 const std::function<void(const std::string& path)>& load) {
  std::string tried;
  for (const std::string& path : plugin_files(name)) {
    try {
      return load(path);
    } catch (const Error& e) {
      tried += std::string("\n  ") + e.what();
    }
  }
  for (const std::string& directory : plugin_directories()) tried += "\n  looked in " + directory;
  throw Error("no ", kind, " '", name, "' was found; set NDTRAIN_BACKEND_PATH to where ",
              plugin_file_name(name), " is", tried);
}

void* plugin_function(std::string_view kind, const std::string& path, const char* symbol) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error(kind, ": ", why_not_loaded(path, dlerror()));
  void* const function = dlsym(library, symbol);
  if (!function) throw Error(kind, ": ", path, " does not export ", symbol);
  return function;
}

}  // namespace ndtrain
