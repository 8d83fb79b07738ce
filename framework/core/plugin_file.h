// Plugins: shared libraries beside the program, each with one function that it is asked by.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain {

// Where plugins are looked for: in $NDTRAIN_BACKEND_PATH (colon-separated), else in
// ndtrain-backends/ beside the program, then in the installed library directory.
std::vector<std::string> plugin_directories();

std::string plugin_file_name(std::string_view name);  // "libndt_cpu.so"

// Where the plugin `name` is, in the order in which to try: in each directory a subdirectory named
// after an instruction set that this CPU has (x86-64-v4, x86-64-v3) goes first.
std::vector<std::string> plugin_files(std::string_view name);

// Calls `load` with one after the other until it throws no Error. Where none is left throws Error,
// which says where the plugin, of `kind` ("backend"), was looked for, and why each was refused.
void load_plugin(std::string_view kind, std::string_view name,
                 const std::function<void(const std::string& path)>& load);

// The library's function `symbol`. The library is never unloaded. Throws Error, which begins with
// `kind` and says what is missing, where there is none. Thread-safe.
void* plugin_function(std::string_view kind, const std::string& path, const char* symbol);

}  // namespace ndtrain
