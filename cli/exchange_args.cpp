#include "cli/exchange_args.h"

#include <algorithm>
#include <array>

namespace ndtrain::cli {
namespace {

constexpr std::array<std::string_view, 13> kCompressors = {
    "topk",     "top-k",   "randomk", "random-k", "threshold", "threshold-v16", "dgc", "qsgd",
    "terngrad", "signsgd", "onebit",  "1bit",     "fp8"};

DType wire_of(const Args& args) {
  if (!args.has("wire-dtype")) return DType::kF32;
  const std::string name = args.text("wire-dtype");
  refuse_compressor("wire-dtype", name);
  if (name == "f32") return DType::kF32;
  if (name == "bf16") return DType::kBF16;
  throw UsageError(
      "--wire-dtype " + name +
      ": there are f32 and bf16; with --sync sparse, local and diloco also f16, int8 and int4");
}

Breakdown breakdown_of(const Args& args, int ranks) {
  if (!args.has("comm-only")) return Breakdown::kWhole;
  const std::string said = "--comm-only " + args.text("comm-only") + ": ";
  if (ranks == 1) throw UsageError(said + "one process exchanges nothing; give --ranks 2 or more");
  if (args.on("resume")) throw UsageError(said + "learns nothing that --resume could go on with");
  try {
    return breakdown_named(args.text("comm-only"));
  } catch (const Error& e) {
    throw UsageError(said + e.what());
  }
}

}  // namespace

void declare_exchange(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Ranks");
  args.flag("shard-optimizer",
            "by ranks: each keeps the optimizer's moments of its part of the parameters and "
            "updates that part alone; the others get the parameters; not with --sync rb");
  args.flag(
      "wire-dtype",
      "by ranks: f32 or bf16: how gradients travel; with bf16 half as many bytes, and the "
      "result depends on the number of ranks; by --sync sparse, local and diloco also f16, int8 "
      "and int4, and what rounding leaves is sent later (default: f32)",
      "TYPE");
  args.flag("comm-only",
            "by ranks: carry out a part of each exchange to see what it costs: rs, the "
            "reduce-scatters; ag, the all-gathers; none; what is trained so is nothing, and no "
            "model is written",
            "HALF");
}

ExchangeOptions exchange_of(const Args& args, int ranks) {
  if (args.on("shard-optimizer") && args.text("sync") == "rb") {
    throw UsageError(
        "--shard-optimizer with --sync rb: rank 0 makes all sums there, which leaves the others "
        "no part; take another --sync");
  }
  return {.shard_optimizer = args.on("shard-optimizer"),
          .wire = wire_of(args),
          .only = breakdown_of(args, ranks)};
}

void refuse_compressor(const std::string& flag, const std::string& value) {
  if (value == "int8" || value == "int4") {
    throw UsageError("--" + flag + " " + value +
                     ": values travel so by ndtrain train --sync sparse, local and diloco with "
                     "--wire-dtype " +
                     value + " alone");
  }
  if (std::ranges::count(kCompressors, value) == 0) return;
  throw UsageError(
      "--" + flag + " " + value +
      ": that is which elements of a gradient travel, not when; in ndtrain train --sync "
      "sparse --compressor says it");
}

}  // namespace ndtrain::cli
