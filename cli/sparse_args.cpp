#include "cli/sparse_args.h"

#include <fmt/format.h>

namespace ndtrain::cli {
void declare_scan(ArgsSpec& args) {
  args.flag("scan",
            "of sparse gradients chosen by thresholds: where a search for elements begins: first, "
            "or rotate, where the last one stopped (default: first)",
            "HOW");
}

bool scan_rotates(const Args& args) {
  const std::string how = args.text("scan");
  if (how.empty() || how == "first") return false;
  if (how == "rotate") return true;
  throw UsageError("--scan " + how + ": there are first and rotate");
}

void declare_sparse(ArgsSpec& args) {
  args.flag("compressor",
            "by --sync sparse, local and diloco: which elements of a gradient travel: topk, "
            "randomk, threshold-v, "
            "threshold-v16, gaussian; signum and efsignum, the signs of all; gtopk, of what ranks "
            "send as topk does the largest sums; or dgc, topk of "
            "gradients with momentum, more in the first four epochs (default: "
            "threshold-v16; of local and diloco all of them)",
            "NAME");
  args.flag("drop",
            "likewise: the part of a gradient that does not travel, 0 to below 1; each of "
            "N ranks sends an Nth of the rest (default: 0.99; "
            "of dgc 0.999, by local and diloco with a --compressor 0.97)",
            "D");
  args.flag(
      "drop-of",
      "by --sync sparse: --drop of a parameter, as fc.weight=0.5, or of all of such names, as "
      "layer4.*=0.9 or *.bias=0; more than one between commas, or given again; the last that "
      "fits counts",
      "NAME=D");
  declare_scan(args);
  args.flag("all-gather",
            "likewise: how what a rank sends comes to the others: direct, or ring, each passes on "
            "what it gets, for where not all links are alike; to the same bytes (default: direct)",
            "WAY");
  args.flag("pieces",
            "by --sync sparse: at each step a rank sends elements of another part of each tensor, "
            "no two ranks of the same");
  args.flag("sparse-momentum",
            "by --sync sparse with --opt sgd: momentum of an element decays when it has a "
            "gradient, touched; at each step, lazy; or that, and the value takes the steps that "
            "it missed, catch-up (default: touched)",
            "HOW");
}

std::vector<std::pair<std::string, std::string>> sparse_settings(const SparseSyncOptions& options) {
  const SparseOptimizerOptions& steps = options.optimizer;
  std::vector<std::pair<std::string, std::string>> all = {
      {"compressor", options.momentum > 0      ? "dgc"
                     : options.largest_of_sums ? "gtopk"
                                               : options.compressor},
      {"scan", options.compressing.rotate ? "rotate" : "first"},
      {"wire-dtype", std::string(name_of(options.wire))},
      {"sparse-momentum", steps.catch_up ? "catch-up"
                          : steps.lazy   ? "lazy"
                                         : "touched"}};
  if (!make_compressor(options.compressor, {})->takes_all()) {
    all.emplace_back("drop", fmt::format("{}", options.drop));
  }
  if (!options.drops.empty()) {
    std::vector<std::string> drops;
    for (const auto& [name, drop] : options.drops)
      drops.push_back(fmt::format("{}={}", name, drop));
    all.emplace_back("drop-of", fmt::format("{}", fmt::join(drops, ",")));
  }
  if (options.staleness > 0) {
    all.emplace_back("staleness", std::to_string(options.staleness));
  }
  if (options.pieces) all.emplace_back("pieces", "true");
  return all;
}

}  // namespace ndtrain::cli
