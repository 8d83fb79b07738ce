#include "cli/ranks.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <thread>

#include "cli/exchange_args.h"
#include "cli/number_args.h"
#include "cli/slow_link_args.h"
#include "cli/stage_args.h"
#include "framework/comm/comm_plugin.h"
#include "framework/comm/library_transport.h"
#include "framework/comm/plugin_transport.h"
#include "framework/comm/rendezvous.h"
#include "framework/comm/stream_transport.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/plan_by_sizes.h"
#include "framework/runtime/backend.h"

namespace ndtrain::cli {
namespace {

constexpr std::string_view kLoopback = "127.0.0.1:";

// Of ranks by MPI, which end together: rank 0 may have much to write.
constexpr auto kFarewell = std::chrono::hours(1);

// "2:1" of two ranks.
std::vector<double> shares_of(const std::string& text, int ranks) {
  std::vector<double> shares;
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    const size_t end = std::min(text.find(':', at), text.size());
    double share = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, share);
    if (error != std::errc() || stop != text.data() + end || !(share > 0)) {
      throw UsageError("--shares " + text + ": numbers above 0, as 2:1; or measured");
    }
    shares.push_back(share);
    at = end + 1;
  }
  if (!shares.empty() && std::ssize(shares) != ranks) {
    throw UsageError("--shares " + text + ": one number for each of " + std::to_string(ranks) +
                     " ranks");
  }
  return shares;
}

void check_schedule(const std::string& name) {
  if (is_slow_link(name)) return;
  refuse_compressor("sync", name);
  try {
    (void)goes_by_sizes(name);
  } catch (const Error& e) {
    throw UsageError("--sync " + name + ": " + e.what());
  }
}

BucketSize bucket_size_of(const Args& args) {
  constexpr int64_t kLeast = 1, kMost = 256;
  const std::string text = args.text("bucket-size"), sync = args.text("sync");
  if (text.empty()) return {};
  if (sync != "ddp" && sync != "dear") {
    throw UsageError("--bucket-size " + text + ": --sync " + sync +
                     " has no such size; ddp and dear have");
  }
  if (text == "auto") return {.tuned = true};
  return {.bytes = int64_t{static_cast<int>(integer_in(args, "bucket-size", kLeast, kMost))} << 20};
}

// Before much has been done for it.
void check_trace(const Args& args, int ranks, bool first) {
  const std::string file = args.text("trace");
  if (file.empty()) return;
  if (ranks == 1) throw UsageError("--trace " + file + ": it is of ranks; give --ranks 2 or more");
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (first && !folder.empty() && !std::filesystem::is_directory(folder)) {
    throw UsageError("--trace " + file + ": there is no directory " + folder.string());
  }
}

// By MPI all processes end when one does, and a world of NCCL is one of all ranks.
bool is_to_regroup(const Args& args, bool by_mpi, bool by_nccl) {
  const std::string what = args.text("on-rank-loss");
  if (!what.empty() && what != "regroup" && what != "end") {
    throw UsageError("--on-rank-loss " + what + ": there are regroup and end");
  }
  const bool by_layers = by_stages(args);
  if (what == "regroup" && by_layers) {
    throw UsageError(
        "--on-rank-loss regroup with --parallel pipeline: no other rank has what a lost stage had; "
        "all ranks end, and go on with --resume; leave it away");
  }
  if (what == "regroup" && by_nccl) {
    throw UsageError(
        "--on-rank-loss regroup: by NCCL all ranks end together, and go on with --resume; leave it "
        "away");
  }
  if (what == "regroup" && by_mpi) {
    throw UsageError(
        "--on-rank-loss regroup: by MPI all ranks end together; leave it away, or "
        "start the ranks with --rank and --rendezvous, which talk by tcp");
  }
  return what == "regroup" ||
         (what.empty() && !by_mpi && !by_nccl && !by_layers && !is_slow_link(args));
}

void refuse_security(const Args& args) {
  for (const std::string flag : kSecurityFlags) {
    if (!args.given(flag)) continue;
    throw UsageError("--" + flag +
                     ": by MPI ranks talk as it has them talk; leave it away, or start the ranks "
                     "with --rank and --rendezvous, which talk by tcp");
  }
}

}  // namespace

void declare_meeting(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Ranks");
  args.flag("ranks",
            "processes that share the rows of each step (default: as many as mpirun or srun has "
            "started, else 1)",
            "N");
  args.flag("rank",
            "this process is rank R of them, and somebody else starts the others (default: rank 0, "
            "which starts them here)",
            "R");
  args.flag("rendezvous",
            "with --rank: where rank 0 listens and the others find it; other machines are let in "
            "with certificates only (ndtrain cert init --member), or --insecure",
            "HOST:PORT");
  args.flag("comm",
            "how ranks talk: tcp; mpi, as processes of mpirun or srun do; nccl, between GPUs, with "
            "--collectives native; auto, which is mpi where these have started several, and nccl "
            "where native sums are asked for and each rank has a GPU",
            "WAY", "auto");
  declare_security(args);
  args.flag("rank-timeout", "seconds without a word after which a rank counts as lost", "S", "30");
}

void declare_ranks(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Ranks");
  declare_meeting(args);
  args.flag(
      "shards",
      "parts of a step that are computed each for itself: so many ranks can take part at "
      "most, and any number of them gives the same bytes; more than one imply --deterministic "
      "(default: as many as ranks, when the run begins)",
      "V");
  args.flag("sync",
            "by ranks: which exchange of gradients: blocking, wfbp, ddp, rb or dear; or one that "
            "begins as ddp and measures steps first: mg-wfbp, bytescheduler, pipedap, or auto, the "
            "best of all by what was measured; or, for slow links, sparse, a few elements of each "
            "gradient, powersgd, thin matrices, local and diloco, what ranks agree on now and then",
            "NAME", "ddp");
  args.flag("bucket-size",
            "of --sync ddp and dear, in MiB: 1 to 256, or auto, which tries sizes in the first "
            "steps (default: 25)",
            "MIB");
  args.flag("shares",
            "by ranks: how the shards are shared out: 2:1 for two ranks; or measured, which times "
            "the ranks in the first steps and gives a faster one more (default: alike)",
            "X:Y:…");
  args.flag("trace", "by ranks: what each did when in the first steps, as a Chrome trace", "FILE");
  args.flag(
      "collectives",
      "by ranks: ordered, the same bytes for any number of ranks; or native, MPI's or NCCL's own, "
      "whose sums depend on it",
      "WHOSE", "ordered");
  args.flag(
      "on-rank-loss",
      "where a rank other than 0 is lost: regroup, the others take over its shards and redo "
      "the step, or with --shard-optimizer all since the last checkpoint, to the same bytes, or, "
      "by --sync sparse, powersgd, local and diloco, to other ones, since what the lost rank had "
      "not sent is lost with it; or end, resumable (default: regroup by tcp, end by mpi and nccl, "
      "by stages, and where one of these four is asked for by name)",
      "WHAT");
}

Ranks::Ranks(Context& context, const Args& args) {
  if (args.has("ranks")) count_ = static_cast<int>(integer_in(args, "ranks", 1, limits::kRanks));
  const bool apart = args.has("rank");
  if (apart != args.has("rendezvous")) {
    throw UsageError("--rank and --rendezvous HOST:PORT belong together");
  }
  if (args.has("sync")) check_schedule(args.text("sync"));
  timeout_ = std::chrono::seconds(static_cast<int>(integer_in(args, "rank-timeout", 1, 86'400)));
  const std::optional<Launcher> by = launcher();
  const bool by_mpi = talks_by_mpi(args, by);
  regroup_ = is_to_regroup(args, by_mpi, false);
  if (by_mpi) {
    refuse_security(args);
    join_launched(args, by);
  } else {
    be_told(context, args);
  }
  const bool may_be_nccl = args.text("comm") == "nccl" ||
                           (args.text("comm") == "auto" && args.text("collectives") == "native" &&
                            !by_mpi && count_ > 1);
  check_collectives(args, may_be_nccl ? nccl_offer(context) : LibraryOffer{.why_not = "tcp"});
  if (by_nccl_) regroup_ = is_to_regroup(args, false, true);
  measures_shares_ = args.text("shares") == "measured";
  if (!measures_shares_) shares_ = shares_of(args.text("shares"), count_);
  bucket_size_ = bucket_size_of(args);
  check_trace(args, count_, is_first());
}

void Ranks::be_told(Context& context, const Args& args) {
  const bool apart = args.has("rank");
  const std::string rendezvous = apart ? args.text("rendezvous") : std::string(kLoopback) + "0";
  if (apart) rank_ = static_cast<int>(integer_in(args, "rank", 0, count_ - 1));
  on_one_machine_ = is_local(rendezvous);
  if (count_ > 1) net_ = rank_net(context, args, rendezvous, rank_);
}

void Ranks::check_collectives(const Args& args, const LibraryOffer& offer) {
  const std::string whose = args.text("collectives");
  by_nccl_ = args.text("comm") == "nccl" || offer.why_not.empty();
  if (by_nccl_) check_nccl(args, offer);
  if (whose.empty() || whose == "ordered") return;
  if (whose != "native") {
    throw UsageError("--collectives " + whose + ": there are ordered and native");
  }
  if (args.text("wire-dtype") == "bf16") {
    throw UsageError(
        "--collectives native with --wire-dtype bf16: a library adds up f32; leave one away");
  }
  if (by_nccl_) {
    native_collectives_ = true;
    return;
  }
  if (!launched_) {
    throw UsageError(
        "--collectives native: these are a library's, and TCP has none; mpirun -n 2 ndtrain train "
        "…, or leave it away");
  }
  if (!launched_->has_collectives()) {
    throw UsageError("--collectives native: " + library_ + " has none; leave it away");
  }
  native_collectives_ = true;
  if (is_first() && !args.on("quiet")) {
    log::info("sums are {}'s own: another number of ranks gives other bytes", library_);
  }
}

// What the ranks here can know before they meet; where others have been started, they are told.
void Ranks::check_nccl(const Args& args, const LibraryOffer& offer) const {
  if (count_ == 1) throw UsageError("--comm nccl: it is between ranks; give --ranks 2 or more");
  if (args.text("collectives") != "native") {
    throw UsageError(
        "--comm nccl: sums are NCCL's own there, whose bytes depend on the number of ranks; add "
        "--collectives native");
  }
  if (!goes_by_sizes(args.text("sync"))) {
    throw UsageError("--comm nccl with --sync " + args.text("sync") +
                     ": it goes by the times of layers, which the host does not see on a GPU; take "
                     "ddp, wfbp, dear, rb or blocking");
  }
  const bool starts_others = !args.has("rank") && !launched_;
  if (starts_others && !offer.why_not.empty()) throw Error("--comm nccl: ", offer.why_not);
}

// Where the launcher and MPI do not know one another, each process is a world of its own.
void Ranks::join_launched(const Args& args, const std::optional<Launcher>& by) {
  const ndt_comm_plugin& plugin = find_comm_plugin("mpi");
  ndt_comm* const world = launched_world(plugin);
  count_ = plugin.size(world);
  rank_ = plugin.rank(world);
  std::vector<std::string> hosts;
  for (int r = 0; r < count_; ++r) hosts.emplace_back(plugin.host(world, r));
  const auto here = std::ranges::count(hosts, hosts[static_cast<size_t>(rank_)]);
  on_one_machine_ = here == count_;
  library_ = plugin.library;
  launched_ = plugin_transport(plugin, world, {.silence = timeout_, .farewell = kFarewell});
  if (by->ranks > 0 && by->ranks != count_) {
    throw Error(by->name, " has started ", by->ranks, " processes, but MPI knows of ", count_,
                ": start them by the mpirun of ", plugin.library, ", or by srun --mpi=pmix");
  }
  if (count_ > limits::kRanks) {
    throw UsageError(by->name + " has started " + std::to_string(count_) + " ranks: 1 to " +
                     std::to_string(limits::kRanks));
  }
  if (args.has("ranks") && args.integer("ranks") != count_) {
    throw UsageError("--ranks " + args.text("ranks") + ", but " + by->name + " has started " +
                     std::to_string(count_) + "; leave --ranks away");
  }
  share_cores(args, static_cast<int>(here));
  if (is_first() && !args.on("quiet")) {
    log::info("{} ranks, which {} has started, talk by {} (--comm mpi)", count_, by->name,
              plugin.library);
  }
}

std::unique_ptr<Transport> Ranks::add_nccl(std::unique_ptr<Transport> messages, const Args& args,
                                           Context& context) {
  const LibraryOffer offer = nccl_offer(context);
  const LibraryPlace place = join_library(*messages, "NCCL", offer);
  context.take_device(place.device);
  library_ = offer.plugin->library;
  if (is_first() && !args.on("quiet")) {
    log::info(
        "{} ranks add up by {}, each on a GPU of its own (--comm nccl): another number of ranks "
        "gives other bytes",
        count_, library_);
  }
  return with_library(std::move(messages), *offer.plugin, place.world);
}

void Ranks::meet(const Args& args, Context& context) {
  if (count_ == 1) return;
  // What it would warn of rank 0 warns of.
  if (!is_first() && (args.on("quiet") || launched_)) log::set_level(log::Level::kError);
  if (is_first() && !launched_ && !args.on("quiet")) {
    log::info("{} ranks talk by TCP{}", count_, net_.secured ? ", encrypted" : "");
  }
  const bool by_mpi = launched_ != nullptr;
  std::unique_ptr<Transport> transport = by_mpi ? std::move(launched_) : meet_by_tcp(args);
  if (by_nccl_) transport = add_nccl(std::move(transport), args, context);
  communicator_ = std::make_unique<Communicator>(std::move(transport),
                                                 Communicator::Options{.in_flight = 1,
                                                                       .stall = kTrainingStall,
                                                                       .trace = args.has("trace"),
                                                                       .regroups = regroup_});
  if (by_mpi) check_same(*communicator_, {{"program", NDT_VERSION}});
}

std::unique_ptr<Transport> Ranks::meet_by_tcp(const Args& args) {
  RankPlace place{.rank = rank_,
                  .ranks = count_,
                  .fingerprint = {{"program", NDT_VERSION}},
                  .listen = net_.listen};
  Result<std::vector<std::unique_ptr<Stream>>> streams = [&] {
    if (args.has("rank")) {
      place.rendezvous = args.text("rendezvous");
      return meet_ranks(net_.net(), place);
    }
    const auto listener = net_.net().listen(std::string(kLoopback) + "0").or_throw();
    share_cores(args, count_);
    const int64_t threads =
        args.integer("threads") > 0 ? args.integer("threads") : shared_threads().threads();
    started_.start(own_words(), count_, listener->address(), threads);
    return receive_ranks(*listener, place);
  }();
  return stream_transport(rank_, std::move(streams).or_throw(), {.silence = timeout_});
}

// Unless -j says so. A launcher may have bound the process to some of them.
void Ranks::share_cores(const Args& args, int ranks_here) {
  if (args.integer("threads") > 0) return;
  cpu_set_t bound;
  int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency())) / ranks_here;
  if (sched_getaffinity(0, sizeof bound, &bound) == 0) cores = std::min(cores, CPU_COUNT(&bound));
  set_threads(std::max(1, cores));
}

std::string Ranks::directory(const std::string& out) {
  if (is_first()) return out;
  scratch_.emplace("ndtrain-rank" + std::to_string(rank_));
  return scratch_->path();
}

}  // namespace ndtrain::cli
