#include "cli/input_args.h"

#include "cli/number_args.h"

namespace ndtrain::cli {

void declare_inputs(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Model");
  args.flag("input",
            "a constant for an input besides the photos: one number for all its elements, or one "
            "for each between commas; again for each input",
            "NAME=VALUE");
}

std::map<std::string, std::vector<double>> inputs_of(const Args& args) {
  std::map<std::string, std::vector<double>> inputs;
  for (const std::string& text : args.list("input")) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("--input " + text + ": takes NAME=VALUE, like scale=0.5");
    }
    const std::string name = text.substr(0, equals);
    if (inputs.contains(name))
      throw UsageError("--input " + text + ": " + name + " is given twice");
    for (const std::string& part : parts_of(text.substr(equals + 1))) {
      inputs[name].push_back(parse_finite("input", part));
    }
    if (inputs[name].empty()) throw UsageError("--input " + text + ": has no value");
  }
  return inputs;
}

}  // namespace ndtrain::cli
