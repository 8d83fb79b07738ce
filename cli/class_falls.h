// Classes that a version labels worse than the one that was in force, as people read them.
#pragma once

#include <fmt/format.h>

#include <string>

#include "framework/core/json.h"

namespace ndtrain::cli {

// A line for each of `of`'s class_falls, of a job's result or of a version's metrics; "": none.
inline std::string class_falls_text(const Json& of) {
  std::string text;
  for (const Json& f : of.value("class_falls", Json::array())) {
    text +=
        fmt::format("{:<32} {} of {} photos right, {} before: {}\n",
                    "class " + f["class"].get<std::string>() + " falls", f["after"].get<int64_t>(),
                    f["photos"].get<int64_t>(), f["before"].get<int64_t>(),
                    f["beyond_chance"].get<bool>() ? "beyond chance" : "may be chance");
  }
  return text;
}

}  // namespace ndtrain::cli
