#include "cli/group_args.h"

#include "cli/exchange_args.h"
#include "cli/rate_args.h"
#include "cli/slow_link_args.h"
#include "framework/core/json.h"
#include "tuner/jobs/slow_link_job.h"

namespace ndtrain::cli {

void declare_group(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Several Tuners");
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
  args.flag("parallel",
            "by several Tuners: dp, each its shards of every step; pipeline, each some layers of "
            "what is trained, by a plan that is made of what these take here; hybrid, the same "
            "where several may share a layer's photos; auto, whichever is predicted to be fastest. "
            "Layers may be trained to another model than one Tuner trains (--pipeline-schedule)",
            "HOW", "dp");
  args.flag(
      "pipeline-schedule",
      "by stages: gpipe, 1f1b or zb, which train what one Tuner with --accumulate does, or, on "
      "parameters that are some updates old, async or 2bw; auto, the fastest of all",
      "NAME", "auto");
  args.flag("micro-batches",
            "by stages: parts of a step at most, 1, 2, 4 …; batch statistics are of one each "
            "(default: as many as make it fast)",
            "N");
  args.flag("sync",
            "by several Tuners: which exchange of gradients (see ndtrain train); auto measures the "
            "link and takes the best; for slow links sparse, powersgd, local and diloco, whose "
            "model depends on the number of Tuners",
            "NAME", "ddp");
  declare_slow_link(args);
  declare_job_rates(args);
  args.flag("staleness",
            "by --sync sparse: a step computes without what the last S steps have sent, which "
            "travels meanwhile (default: 0)",
            "S");
  args.flag("drain-every",
            "by --sync local and diloco, and sparse with --staleness: all is applied behind so "
            "many steps of an epoch, where the job can be paused, and go on when a Tuner is lost "
            "(default: 100, or the next multiple of --inner-steps)",
            "N");
  args.flag("wire-dtype",
            "over slow links: what travels is f32, bf16 or f16; by --sync sparse, local and diloco "
            "also int8 and int4, of which what rounding leaves is sent later (default: f32)",
            "TYPE");
}

void read_group(const Args& args, Fs& fs, Json& job) {
  refuse_compressor("sync", args.text("sync"));
  job["tuners"] = args.integer("tuners");
  job["sync"] = args.text("sync");
  if (args.has("shards")) job["shards"] = args.integer("shards");
  tuner::add_slow_link(job, slow_link_spec_of(args, /*with_shared=*/true));
  read_job_rates(args, fs, job);
  const std::string how = args.text("parallel");
  if (how == "dp") {
    for (const char* flag : {"pipeline-schedule", "micro-batches"}) {
      if (!args.given(flag)) continue;
      throw UsageError(std::string("--") + flag + " is of stages: give --parallel, too");
    }
    return;
  }
  job["pipeline_schedule"] = args.text("pipeline-schedule");
  if (args.has("micro-batches")) job["micro_batches"] = args.integer("micro-batches");
  job["parallel"] = how;
  if (how == "auto") return;
  for (const char* flag : {"sync", "shards"}) {
    if (!args.given(flag)) continue;
    throw UsageError(std::string("--") + flag + " with --parallel " + how +
                     ": it is of Tuners that share the photos; leave it away");
  }
}

void declare_leading(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Several Tuners");
  args.flag("ranks-listen",
            "where members meet this Tuner while they train with it (default: the address of "
            "--listen, one port up; on loopback any port)",
            "HOST:PORT");
  declare_site(args, "this Tuner");
  declare_rank_timeout(args);
}

void read_leading(const Args& args, TunerConfig& config) {
  config.ranks_listen = args.text("ranks-listen");
  config.rank_timeout = rank_timeout_of(args);
  config.site = site_of(args);
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
