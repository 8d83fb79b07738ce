#include "cli/sparse_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "cli/number_args.h"
#include "cli/stage_args.h"
#include "framework/core/limits.h"

namespace ndtrain::cli {
namespace {

constexpr std::array<const char*, 4> kFlags = {"compressor", "drop", "scan", "sparse-momentum"};

// What other exchanges can do, and why this one does not.
constexpr std::pair<const char*, const char*> kOfOthers[] = {
    {"shard-optimizer", "a rank steps on what all have sent"},
    {"comm-only", "it has no halves"},
    {"collectives", "what is sent is not added up by a library"},
    {"trace", "operations are not traced yet"},
    {"clip-norm", "what is sent of a gradient at a step has no norm"}};

void refuse_what_is_of_others(const Args& args) {
  for (const auto& [flag, why] : kOfOthers) {
    if (!args.given(flag)) continue;
    throw UsageError(std::string("--") + flag + " with --sync sparse: " + why + "; leave it away");
  }
  if (args.text("comm") == "nccl") {
    throw UsageError("--comm nccl with --sync sparse: it is computed on processors; leave it away");
  }
  if (args.text("shares") == "measured") {
    throw UsageError(
        "--shares measured with --sync sparse: the ranks are not timed; give them, as 2:1");
  }
  if (args.text("on-rank-loss") == "regroup") {
    throw UsageError(
        "--on-rank-loss regroup with --sync sparse: what the lost rank had not sent is lost with "
        "it; all ranks end, and go on with --resume; leave it away");
  }
  if (by_stages(args)) {
    throw UsageError("--sync sparse with --parallel " + args.text("parallel") +
                     ": it is of ranks that share the photos; leave one away");
  }
}

DType sparse_wire_of(const Args& args) {
  const std::string name = args.text("wire-dtype");
  if (name.empty() || name == "f32") return DType::kF32;
  if (name == "bf16") return DType::kBF16;
  if (name == "f16") return DType::kF16;
  throw UsageError("--wire-dtype " + name + ": there are f32, f16 and bf16");
}

std::optional<double> drop_of(const Args& args) {
  if (!args.has("drop")) return std::nullopt;
  const double drop = args.number("drop");
  if (drop >= 0 && drop < 1) return drop;
  throw UsageError("--drop " + args.text("drop") + ": 0 to below 1");
}

constexpr const char* kDeep = "dgc";

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
  const auto names = compressor_names();
  if (std::ranges::count(names, name) == 0) {
    throw UsageError(
        fmt::format("--compressor {}: there are {} and dgc", name, fmt::join(names, ", ")));
  }
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

void declare_sparse(ArgsSpec& args) {
  args.flag("compressor",
            "by --sync sparse: which elements of a gradient travel: topk, randomk, threshold-v, "
            "threshold-v16, gaussian; signum and efsignum, the signs of all; or dgc, topk of "
            "gradients with momentum, more in the first four epochs (default: "
            "threshold-v16)",
            "NAME");
  args.flag("drop",
            "by --sync sparse: the part of a gradient that does not travel, 0 to below 1; each of "
            "N ranks sends an Nth of the rest (default: 0.99; "
            "of dgc 0.999)",
            "D");
  declare_scan(args);
  args.flag("sparse-momentum",
            "by --sync sparse with --opt sgd: momentum of an element decays when it has a "
            "gradient, touched; at each step, lazy; or that, and the value takes the steps that "
            "it missed, catch-up (default: touched)",
            "HOW");
}

bool is_sparse(const Args& args) { return args.text("sync") == "sparse"; }

std::optional<SparseAsked> sparse_of(const Args& args, uint64_t seed) {
  if (!is_sparse(args)) {
    for (const char* flag : kFlags) {
      if (!args.given(flag)) continue;
      throw UsageError(std::string("--") + flag + " is of --sync sparse: add that");
    }
    return std::nullopt;
  }
  refuse_what_is_of_others(args);
  SparseSyncOptions options = compressor_of(args);
  options.compressing.rotate = scan_rotates(args);
  options.wire = sparse_wire_of(args);
  options.seed = seed;
  options.optimizer = momentum_of(args);
  const bool signs = make_compressor(options.compressor, {})->takes_all();
  if (signs && args.given("drop")) {
    throw UsageError("--drop with --compressor " + options.compressor +
                     ": it sends a bit of each element; leave one away");
  }
  if (args.has("staleness")) {
    options.staleness =
        static_cast<int>(integer_in(args, "staleness", 0, limits::kSparseStaleness));
  }
  SparseAsked asked{.sync = std::move(options)};
  if (!args.given("drain-every")) return asked;
  if (asked.sync.staleness == 0) {
    throw UsageError("--drain-every with --sync sparse: without --staleness nothing is under way");
  }
  asked.drain_every = integer_in(args, "drain-every", 1, std::numeric_limits<int32_t>::max());
  return asked;
}

std::vector<std::pair<std::string, std::string>> sparse_settings(const SparseAsked& asked) {
  const SparseSyncOptions& options = asked.sync;
  const SparseOptimizerOptions& steps = options.optimizer;
  std::vector<std::pair<std::string, std::string>> all = {
      {"sync", "sparse"},
      {"compressor", options.momentum > 0 ? kDeep : options.compressor},
      {"scan", options.compressing.rotate ? "rotate" : "first"},
      {"wire-dtype", std::string(name_of(options.wire))},
      {"sparse-momentum", steps.catch_up ? "catch-up"
                          : steps.lazy   ? "lazy"
                                         : "touched"}};
  if (!make_compressor(options.compressor, {})->takes_all()) {
    all.emplace_back("drop", fmt::format("{}", options.drop));
  }
  if (options.staleness > 0) {
    all.emplace_back("staleness", std::to_string(options.staleness));
    all.emplace_back("drain-every", std::to_string(asked.drain_every));
  }
  return all;
}

}  // namespace ndtrain::cli
