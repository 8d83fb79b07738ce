#include "cli/slow_link_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <string_view>

#include "cli/local_args.h"
#include "cli/number_args.h"
#include "cli/rate_args.h"
#include "cli/sparse_args.h"
#include "cli/stage_args.h"
#include "framework/core/limits.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::cli {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"sparse", "local", "diloco", "powersgd"};
constexpr std::array<const char*, 1> kFactorFlags = {"factor-rank"}, kFlagsOfAll = {"verify"};

// What other exchanges can do, and why these do not.
constexpr std::pair<const char*, const char*> kOfOthers[] = {
    {"shard-optimizer", "each rank steps on all parameters"},
    {"comm-only", "it has no halves"},
    {"collectives", "what is sent is not added up by a library"}};

}  // namespace

void refuse_what_is_of_others(const Args& args, const std::string& asked) {
  const std::string with = " with " + asked + ": ";
  for (const auto& [flag, why] : kOfOthers) {
    if (!args.given(flag)) continue;
    throw UsageError(std::string("--") + flag + with + why + "; leave it away");
  }
  if (args.text("comm") == "nccl") {
    throw UsageError("--comm nccl" + with + "it is computed on processors; leave it away");
  }
  if (args.text("shares") == "measured") {
    throw UsageError("--shares measured" + with + "the ranks are not timed; give them, as 2:1");
  }
  if (by_stages(args)) {
    throw UsageError(asked + " with --parallel " + args.text("parallel") +
                     ": it is of ranks that share the photos; leave one away");
  }
}

namespace {

// Flags of sparse gradients without these, and so on.
template <class Flags>
void refuse_given(const Args& args, const Flags& flags, const std::string& of) {
  for (const char* flag : flags) {
    if (args.given(flag)) {
      throw UsageError(std::string("--") + flag + " is of --sync " + of + ": add that");
    }
  }
}

PowerSgdOptions power_sgd_of(const Args& args, uint64_t seed) {
  PowerSgdOptions options{.wire = float_wire_of(args), .seed = seed};
  if (args.has("factor-rank")) {
    options.rank = static_cast<int>(integer_in(args, "factor-rank", 1, limits::kPowerSgdRank));
  }
  for (const char* flag : {"staleness", "drain-every"}) {
    if (!args.given(flag)) continue;
    throw UsageError(std::string("--") + flag +
                     " with --sync powersgd: a step waits for what it sends, and nothing is under "
                     "way; leave it away");
  }
  return options;
}

}  // namespace

bool is_slow_link(std::string_view sync) { return std::ranges::count(kNames, sync) > 0; }

bool is_slow_link(const Args& args) { return is_slow_link(args.text("sync")); }

void declare_slow_link(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Slow links");
  declare_sparse(args);
  declare_local(args);
  args.flag("factor-rank",
            "by --sync powersgd: gradients travel as products of matrices with so many columns "
            "(default: 4)",
            "R");
  args.flag(
      "verify",
      "by --sync sparse, powersgd, local and diloco: ranks compare their parameters behind so "
      "many steps, or where all is applied next; behind each epoch they always do",
      "N");
}

std::optional<SlowLinkAsked> slow_link_of(const Args& args, uint64_t seed) {
  SlowLinkAsked asked{.name = args.text("sync"), .options = {}};
  const bool sparse = asked.name == "sparse", low_rank = asked.name == "powersgd";
  const bool local = is_slow_link(args) && !sparse && !low_rank;
  if (!sparse) refuse_given(args, kSparseStepFlags, "sparse");
  if (!sparse && !local) refuse_given(args, kSelectionFlags, "sparse, local and diloco");
  if (!local) refuse_given(args, kLocalFlags, "local and diloco");
  if (!low_rank) refuse_given(args, kFactorFlags, "powersgd");
  if (!is_slow_link(args)) {
    refuse_given(args, kFlagsOfAll, "sparse, powersgd, local and diloco");
    return std::nullopt;
  }
  refuse_what_is_of_others(args, "--sync " + asked.name);
  if (sparse) {
    const SparseSyncOptions options = sparse_of(args, seed);
    if (args.given("drain-every") && options.staleness == 0) {
      throw UsageError(
          "--drain-every with --sync sparse: without --staleness nothing is under way");
    }
    asked.options = options;
  } else if (low_rank) {
    asked.options = power_sgd_of(args, seed);
  } else {
    const LocalStepsOptions options = local_of(args, seed);
    // Where a fragment agrees all the same.
    const int64_t steps = options.inner_steps;
    asked.drain_every = (asked.drain_every + steps - 1) / steps * steps;
    asked.options = options;
  }
  if (args.has("verify")) {
    asked.verify_every = integer_in(args, "verify", 1, std::numeric_limits<int32_t>::max());
  }
  if (args.given("drain-every")) {
    asked.drain_every = integer_in(args, "drain-every", 1, std::numeric_limits<int32_t>::max());
  }
  return asked;
}

SlowLinkMethod method_of(const SlowLinkAsked& asked) {
  if (const auto* sparse = std::get_if<SparseSyncOptions>(&asked.options)) {
    return sparse_method(*sparse, asked.drain_every);
  }
  if (const auto* local = std::get_if<LocalStepsOptions>(&asked.options)) {
    return local_method(asked.name, *local, asked.drain_every);
  }
  return power_sgd_method(std::get<PowerSgdOptions>(asked.options));
}

void declare_site(ArgsSpec& args, const std::string& who) {
  const ArgsSpec::Heading heading(args, "Slow links");
  args.flag("site",
            "over slow links (--sync sparse, powersgd, local and diloco): where " + who +
                " is; those of one site are near each other, add up whole gradients, and exchange "
                "with other sites as one would (default: at a site of its own)",
            "NAME");
}

std::string site_of(const Args& args) {
  const std::string site = args.text("site");
  if (site.empty() || is_store_name(site)) return site;
  throw UsageError("--site " + site +
                   ": letters, digits, '.', '_' and '-', at most 64, not beginning with . or -");
}

std::vector<std::pair<std::string, std::string>> settings_of(const SlowLinkAsked& asked) {
  std::vector<std::pair<std::string, std::string>> all;
  bool drains = false;
  if (const auto* sparse = std::get_if<SparseSyncOptions>(&asked.options)) {
    all = sparse_settings(*sparse);
    std::ranges::copy(rate_settings(*sparse), std::back_inserter(all));
    drains = sparse->staleness > 0;
  } else if (const auto* local = std::get_if<LocalStepsOptions>(&asked.options)) {
    all = local_settings(*local);
    drains = true;
  } else {
    const auto& low_rank = std::get<PowerSgdOptions>(asked.options);
    all = {{"factor-rank", std::to_string(low_rank.rank)},
           {"wire-dtype", std::string(name_of(low_rank.wire))}};
  }
  all.emplace_back("sync", asked.name);
  if (drains) all.emplace_back("drain-every", std::to_string(asked.drain_every));
  return all;
}

}  // namespace ndtrain::cli
