#include "cli/group_args.h"

#include "cli/exchange_args.h"
#include "framework/core/json.h"

namespace ndtrain::cli {

void declare_group(ArgsSpec& args) {
  args.flag(
      "tuners",
      "so many Tuners train together, each its shards of every step: this one, and those that "
      "ndtrain tuner join has made members; where fewer are here, these, to the same model",
      "N", "1");
  args.flag(
      "shards",
      "parts of a step that are computed each for itself: so many Tuners can take part at "
      "most, and any number of them gives the same model; more than one imply --deterministic "
      "(default: as many as --tuners)",
      "V");
  args.flag("sync",
            "by several Tuners: which exchange of gradients (see ndtrain train); auto measures the "
            "link and takes the best",
            "NAME", "ddp");
}

void read_group(const Args& args, Json& job) {
  refuse_compressor("sync", args.text("sync"));
  job["tuners"] = args.integer("tuners");
  job["sync"] = args.text("sync");
  if (args.has("shards")) job["shards"] = args.integer("shards");
}

void declare_leading(ArgsSpec& args) {
  args.flag("ranks-listen",
            "where members meet this Tuner while they train with it (default: the address of "
            "--listen, one port up; on loopback any port)",
            "HOST:PORT");
  declare_rank_timeout(args);
}

void read_leading(const Args& args, TunerConfig& config) {
  config.ranks_listen = args.text("ranks-listen");
  config.rank_timeout = rank_timeout_of(args);
  if (config.ranks_listen.empty()) return;
  check_exposure(config.ranks_listen, config.security.on(), args.on("insecure")).or_throw();
}

void declare_rank_timeout(ArgsSpec& args) {
  args.flag("rank-timeout", "seconds without a word after which a training Tuner counts as lost",
            "S", "30");
}

std::chrono::milliseconds rank_timeout_of(const Args& args) {
  const int64_t seconds = args.integer("rank-timeout");
  if (seconds < 1 || seconds > 86'400) {
    throw UsageError("--rank-timeout " + args.text("rank-timeout") + ": 1 to 86400");
  }
  return std::chrono::seconds(seconds);
}

}  // namespace ndtrain::cli
