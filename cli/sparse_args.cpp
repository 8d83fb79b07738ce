#include "cli/sparse_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cli/number_args.h"
#include "framework/core/limits.h"
#include "framework/sparse/sync/drops.h"

namespace ndtrain::cli {
namespace {

// Of each --drop-of, one or more between commas. That a parameter is called so is seen later.
std::vector<std::pair<std::string, double>> named_drops_of(const Args& args) {
  std::vector<std::pair<std::string, double>> drops;
  for (const std::string& list : args.list("drop-of")) {
    for (const std::string& part : parts_of(list)) {
      const auto drop = named_drop(part);
      if (!drop) {
        throw UsageError("--drop-of " + part +
                         ": a parameter's name, in which * is anything, then = and 0 to below 1");
      }
      drops.push_back(*drop);
    }
  }
  return drops;
}

constexpr const char *kDeep = "dgc", *kLargestOfSums = "gtopk";

// What is sent; the rest of the options is to be filled in.
SparseSyncOptions compressor_of(const Args& args) {
  const std::string name = args.text("compressor");
  const std::optional<double> drop = drop_of(args);
  if (name == kDeep) {
    if (args.text("opt") != "sgd" || args.on("nesterov") || args.has("dampening")) {
      throw UsageError(
          "--compressor dgc: momentum is of gradients before they are sent, as sgd has it; take "
          "--opt sgd without --nesterov and --dampening");
    }
    if (!(args.number("momentum") > 0 && args.number("momentum") < 1)) {
      throw UsageError("--compressor dgc with --momentum " + args.text("momentum") +
                       ": above 0 and below 1; topk has none");
    }
    if (args.has("sparse-momentum")) {
      throw UsageError("--sparse-momentum with --compressor dgc, which has its own; leave it away");
    }
    const double momentum = args.number("momentum");
    return drop ? deep_gradient_compression(momentum, *drop) : deep_gradient_compression(momentum);
  }
  SparseSyncOptions options;
  if (drop) options.drop = *drop;
  if (name.empty()) return options;
  if (name == kLargestOfSums) {
    options.compressor = "topk";
    options.largest_of_sums = true;
    return options;
  }
  check_compressor(args);
  options.compressor = name;
  return options;
}

SparseOptimizerOptions momentum_of(const Args& args) {
  const std::string name = args.text("sparse-momentum");
  if (name.empty() || name == "touched") return {};
  if (args.text("opt") != "sgd") {
    throw UsageError("--sparse-momentum " + name + ": it is of --opt sgd");
  }
  if (name == "lazy") return {.lazy = true};
  if (name != "catch-up") {
    throw UsageError("--sparse-momentum " + name + ": there are touched, lazy and catch-up");
  }
  if (args.text("sched") != "constant" || args.number("warmup") > 0) {
    throw UsageError(
        "--sparse-momentum catch-up: the steps an element has missed are of one rate; add --sched "
        "constant, without --warmup");
  }
  if (args.on("nesterov") || args.number("momentum") >= 1) {
    throw UsageError(
        "--sparse-momentum catch-up: what an element has missed is a sum without --nesterov, of a "
        "--momentum below 1");
  }
  return {.lazy = true, .catch_up = true};
}

}  // namespace

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

GatherRoute gather_route_of(const Args& args) {
  const std::string name = args.text("all-gather");
  if (name.empty()) return GatherRoute::kDirect;
  try {
    return gather_route_named(name);
  } catch (const Error& e) {
    throw UsageError("--all-gather " + name + ": " + e.what());
  }
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

std::optional<double> drop_of(const Args& args) {
  if (!args.has("drop")) return std::nullopt;
  const double drop = args.number("drop");
  if (drop >= 0 && drop < 1) return drop;
  throw UsageError("--drop " + args.text("drop") + ": 0 to below 1");
}

void check_compressor(const Args& args) {
  const std::string name = args.text("compressor");
  const auto names = compressor_names();
  if (std::ranges::count(names, name) > 0) return;
  const char* const deep = args.text("sync") == "sparse" ? ", gtopk and dgc" : "";
  throw UsageError(
      fmt::format("--compressor {}: there are {}{}", name, fmt::join(names, ", "), deep));
}

ValueCoding value_wire_of(const Args& args) {
  const std::string name = args.text("wire-dtype");
  if (name.empty()) return ValueCoding::kF32;
  try {
    return value_coding_named(name);
  } catch (const Error& e) {
    throw UsageError("--wire-dtype " + name + ": " + e.what());
  }
}

DType float_wire_of(const Args& args) {
  if (const auto type = float_type_of(value_wire_of(args))) return *type;
  throw UsageError("--wire-dtype " + args.text("wire-dtype") + " with --sync " + args.text("sync") +
                   ": there are f32, f16 and bf16");
}

SparseSyncOptions sparse_of(const Args& args, uint64_t seed) {
  SparseSyncOptions options = compressor_of(args);
  options.compressing.rotate = scan_rotates(args);
  options.wire = value_wire_of(args);
  options.route = gather_route_of(args);
  options.drops = named_drops_of(args);
  options.seed = seed;
  options.pieces = args.on("pieces");
  options.optimizer = momentum_of(args);
  const bool signs = make_compressor(options.compressor, {})->takes_all();
  if (args.given("clip-norm")) {
    throw UsageError(
        "--clip-norm with --sync sparse: what is sent of a gradient at a step has no norm; leave "
        "it away");
  }
  if (args.given("layer-decay")) {
    throw UsageError("--layer-decay " + args.text("layer-decay") +
                     " with --sync sparse: its steps have one rate for all layers; leave one away");
  }
  if (args.given("lr-of")) {
    throw UsageError("--lr-of " + args.text("lr-of") +
                     " with --sync sparse: its steps have one rate for all parameters; leave one "
                     "away");
  }
  if (signs && options.pieces) {
    throw UsageError("--pieces with --compressor " + options.compressor +
                     ": signs are of all elements of a tensor; leave one away");
  }
  for (const std::string flag : {"drop", "drop-of"}) {
    if (!signs || !args.given(flag)) continue;
    throw UsageError("--" + flag + " with --compressor " + options.compressor +
                     ": it sends a bit of each element; leave one away");
  }
  if (args.has("staleness")) {
    options.staleness =
        static_cast<int>(integer_in(args, "staleness", 0, limits::kSparseStaleness));
  }
  return options;
}

std::vector<std::pair<std::string, std::string>> sparse_settings(const SparseSyncOptions& options) {
  const SparseOptimizerOptions& steps = options.optimizer;
  std::vector<std::pair<std::string, std::string>> all = {
      {"compressor", options.momentum > 0      ? kDeep
                     : options.largest_of_sums ? kLargestOfSums
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
