#include "cli/local_args.h"

#include <fmt/format.h>

namespace ndtrain::cli {

void declare_local(ArgsSpec& args) {
  args.flag("inner-steps",
            "by --sync local and diloco: each rank takes so many steps by itself before they agree "
            "(default: 50)",
            "H");
  args.flag("outer-lr",
            "by --sync diloco: the learning rate of the outer optimizer, by which what ranks have "
            "learnt since they agreed becomes what they go on from (default: 0.7)",
            "R");
  args.flag("outer-momentum", "by --sync diloco: its Nesterov momentum (default: 0.9)", "M");
  args.flag("fragments",
            "by --sync local and diloco: so many parts of the parameters, which agree in turn, so "
            "that less travels at once (default: 1)",
            "N");
  args.flag("overlap",
            "by --sync local and diloco: ranks go on for so many steps, below H, while what they "
            "agree on travels (default: 0)",
            "STEPS");
  args.flag("mixing",
            "with --overlap: the share of what a rank has learnt meanwhile in what it goes on with "
            "(default: 0.5)",
            "A");
}

std::vector<std::pair<std::string, std::string>> local_settings(const LocalStepsOptions& options) {
  std::vector<std::pair<std::string, std::string>> all = {
      {"inner-steps", std::to_string(options.inner_steps)},
      {"fragments", std::to_string(options.fragments)},
      {"overlap", std::to_string(options.overlap)},
      {"wire-dtype", std::string(name_of(options.wire))}};
  const LocalStepsOptions mean = averaging(options.inner_steps);
  if (options.outer_lr != mean.outer_lr || options.outer_momentum != mean.outer_momentum) {
    all.emplace_back("outer-lr", fmt::format("{}", options.outer_lr));
    all.emplace_back("outer-momentum", fmt::format("{}", options.outer_momentum));
  }
  if (!options.compressor.empty()) {
    all.emplace_back("compressor", options.compressor);
    all.emplace_back("scan", options.compressing.rotate ? "rotate" : "first");
    if (!make_compressor(options.compressor)->takes_all()) {
      all.emplace_back("drop", fmt::format("{}", options.drop));
    }
  }
  if (options.overlap > 0) all.emplace_back("mixing", fmt::format("{}", options.mixing));
  return all;
}

}  // namespace ndtrain::cli
