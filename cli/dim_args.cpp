#include "cli/dim_args.h"

#include <charconv>

namespace ndtrain::cli {

void declare_dims(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Model");
  args.flag("dim",
            "extent of a symbolic dimension of an input, by its name or as INPUT[AXIS]; again for "
            "each (default: height and width as the preprocessing says)",
            "NAME=N");
}

std::map<std::string, int64_t> dims_of(const Args& args) {
  std::map<std::string, int64_t> dims;
  for (const std::string& text : args.list("dim")) {
    const size_t equals = text.rfind('=');
    int64_t extent = 0;
    if (equals != std::string::npos) {
      const char* const end = text.data() + text.size();
      const auto [read, error] = std::from_chars(text.data() + equals + 1, end, extent);
      if (error != std::errc() || read != end) extent = 0;
    }
    if (equals == 0 || extent < 1) {
      throw UsageError("--dim " + text + ": takes NAME=N, like height=224, with N at least 1");
    }
    const auto [at, is_new] = dims.emplace(text.substr(0, equals), extent);
    if (!is_new && at->second != extent) {
      throw UsageError("--dim " + text + ": " + at->first + " is " + std::to_string(at->second) +
                       " already");
    }
  }
  return dims;
}

}  // namespace ndtrain::cli
