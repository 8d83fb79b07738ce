#include "cli/slow_link_args.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <variant>

#include "cli/local_args.h"
#include "cli/number_args.h"
#include "cli/rate_args.h"
#include "cli/sparse_args.h"
#include "cli/stage_args.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::cli {
namespace {

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

// By somebody; some have a default for other exchanges.
bool is_said(const Args& args, const std::string& flag) {
  return args.given(flag) && args.has(flag);
}

void read(const Args& args, const std::string& flag, std::optional<std::string>& field) {
  if (is_said(args, flag)) field = args.text(flag);
}
void read(const Args& args, const std::string& flag, std::optional<double>& field) {
  if (is_said(args, flag)) field = args.number(flag);
}
void read(const Args& args, const std::string& flag, std::optional<int64_t>& field) {
  if (is_said(args, flag)) field = args.integer(flag);
}
void read(const Args& args, const std::string& flag, bool& field) { field = args.on(flag); }
// Each may be more than one, between commas.
void read(const Args& args, const std::string& flag, std::vector<std::string>& field) {
  for (const std::string& list : args.list(flag))
    std::ranges::copy(parts_of(list), std::back_inserter(field));
}

}  // namespace

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

SlowLinkSpec slow_link_spec_of(const Args& args, bool with_shared) {
  SlowLinkSpec spec;
  for_each_setting(spec, [&](const std::string& key, auto& field, std::string_view /*of*/) {
    std::string flag = key;
    std::ranges::replace(flag, '_', '-');
    const bool shared = key == "staleness" || key == "drain_every" || key == "wire_dtype";
    if (key != "convergence" && (with_shared || !shared)) read(args, flag, field);
  });
  return spec;
}

std::optional<SlowLinkChoice> slow_link_of(const Args& args, Fs& fs, const std::string& model,
                                           const TrainerConfig& trainer) {
  const std::string sync = args.text("sync");
  const SettingNames names = SettingNames::flags();
  const bool asked = is_slow_link(sync);
  SlowLinkSpec spec = slow_link_spec_of(args, asked);
  if (asked) refuse_what_is_of_others(args, "--sync " + sync);
  try {
    refuse_slow_link_settings(spec, sync, names);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  read_rates(args, fs, model, spec);
  if (!asked) return std::nullopt;
  const SlowLinkTask task{.sync = sync,
                          .trainer = trainer,
                          .dry_run = args.on("dry-run"),
                          .passes_apart = !args.has("shards") && trainer.accumulate == 1};
  try {
    return ndp::slow_link_of(spec, task, names);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
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

std::vector<std::pair<std::string, std::string>> settings_of(const ExchangeMethod& method) {
  std::vector<std::pair<std::string, std::string>> all;
  bool drains = false;
  if (const auto* sparse = std::get_if<SparseSyncOptions>(&method.options)) {
    all = sparse_settings(*sparse);
    std::ranges::copy(rate_settings(*sparse), std::back_inserter(all));
    drains = sparse->staleness > 0;
  } else if (const auto* local = std::get_if<LocalStepsOptions>(&method.options)) {
    all = local_settings(*local);
    drains = true;
  } else {
    const auto& low_rank = std::get<PowerSgdOptions>(method.options);
    all = {{"factor-rank", std::to_string(low_rank.rank)},
           {"wire-dtype", std::string(name_of(low_rank.wire))}};
  }
  all.emplace_back("sync", method.sync);
  if (drains) all.emplace_back("drain-every", std::to_string(method.drain_every));
  return all;
}

}  // namespace ndtrain::cli
