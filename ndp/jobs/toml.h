// TOML as its readers here have it: through toml++ (https://marzer.github.io/tomlplusplus), whose
// own checks would end the program where a file breaks what it takes for granted. Whoever reads
// TOML includes this and not toml++, which has to be compiled alike everywhere.
#pragma once

#include <string>
#include <string_view>

namespace ndtrain::ndp {

[[noreturn]] void refuse_toml();  // throws Error

}  // namespace ndtrain::ndp

#define TOML_ASSERT(expr) (static_cast<bool>(expr) ? void(0) : ::ndtrain::ndp::refuse_toml())
#pragma push_macro("NDEBUG")
#undef NDEBUG  // with which it would take for granted what the file says
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace ndtrain::ndp {

// Throws Error: what is wrong, and in which line where that is known.
toml::table parse_toml(std::string_view text);

}  // namespace ndtrain::ndp
