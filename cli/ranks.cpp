#include "cli/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <thread>

#include "framework/comm/rendezvous.h"
#include "framework/comm/stream_transport.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/parallel/plan_by_sizes.h"
#include "framework/runtime/backend.h"

namespace ndtrain::cli {
namespace {

constexpr std::string_view kLoopback = "127.0.0.1:";

// Of one operation. A rank that is silent is lost much sooner; one that computes is waited for.
constexpr auto kStall = std::chrono::hours(24 * 7);

int whole_number(const Args& args, const std::string& flag, int64_t least, int64_t most) {
  const int64_t n = args.integer(flag);
  if (n < least || n > most) {
    throw UsageError("--" + flag + " " + args.text(flag) + ": " + std::to_string(least) + " to " +
                     std::to_string(most));
  }
  return static_cast<int>(n);
}

// "2:1" of two ranks.
std::vector<double> shares_of(const std::string& text, int ranks) {
  std::vector<double> shares;
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    const size_t end = std::min(text.find(':', at), text.size());
    double share = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, share);
    if (error != std::errc() || stop != text.data() + end || !(share > 0)) {
      throw UsageError("--shares " + text + ": numbers above 0, as 2:1");
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
  try {
    check_goes_by_sizes(name);
  } catch (const Error& e) {
    throw UsageError("--sync " + name + ": " + e.what());
  }
}

std::string scratch_of(int rank, pid_t process) {
  return std::filesystem::temp_directory_path() /
         ("ndtrain-rank" + std::to_string(rank) + "-" + std::to_string(process));
}

}  // namespace

void declare_ranks(ArgsSpec& args) {
  args.flag("ranks", "processes that share the rows of each step", "N", "1");
  args.flag("rank",
            "this process is rank R of them, and somebody else starts the others (default: rank 0, "
            "which starts them here)",
            "R");
  args.flag("rendezvous", "with --rank: where rank 0 listens and the others find it; not encrypted",
            "HOST:PORT");
  args.flag(
      "shards",
      "parts of a step that are computed each for itself: so many ranks can take part at "
      "most, and any number of them gives the same bytes; more than one imply --deterministic "
      "(default: as many as ranks, when the run begins)",
      "V");
  args.flag("sync", "by ranks: which exchange of gradients: blocking, wfbp, ddp, rb or dear",
            "NAME", "ddp");
  args.flag("shares", "by ranks: how the shards are shared out, 2:1 for two ranks (default: alike)",
            "X:Y:…");
  args.flag("rank-timeout", "seconds without a word after which a rank counts as lost", "S", "30");
}

Ranks::Ranks(const Args& args) : count_(whole_number(args, "ranks", 1, limits::kRanks)) {
  shares_ = shares_of(args.text("shares"), count_);
  const bool apart = args.has("rank");
  if (apart != args.has("rendezvous")) {
    throw UsageError("--rank and --rendezvous HOST:PORT belong together");
  }
  check_schedule(args.text("sync"));
  if (apart) rank_ = whole_number(args, "rank", 0, count_ - 1);
  on_one_machine_ = !apart || args.text("rendezvous").starts_with(kLoopback);
  timeout_ = std::chrono::seconds(whole_number(args, "rank-timeout", 1, 86'400));
}

void Ranks::meet(const Args& args) {
  if (count_ == 1) return;
  // What it would warn of rank 0 warns of.
  if (!is_first() && args.on("quiet")) log::set_level(log::Level::kError);
  RankPlace place{.rank = rank_, .ranks = count_, .fingerprint = {{"program", NDT_VERSION}}};
  Result<std::vector<std::unique_ptr<Stream>>> streams = [&] {
    if (args.has("rank")) {
      place.rendezvous = args.text("rendezvous");
      return meet_ranks(real_net(), place);
    }
    const auto listener = real_net().listen(std::string(kLoopback) + "0").or_throw();
    int64_t threads = args.integer("threads");
    if (threads == 0) {
      const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
      threads = std::max<int64_t>(1, cores / count_);
      set_threads(static_cast<int>(threads));
    }
    start_ranks(own_words(), count_, listener->address(), threads, started_);
    return receive_ranks(*listener, place);
  }();
  streams.status().or_throw();
  communicator_ = std::make_unique<Communicator>(
      stream_transport(rank_, std::move(*streams), {.silence = timeout_}),
      Communicator::Options{.in_flight = 1, .stall = kStall});
}

Ranks::~Ranks() {
  communicator_.reset();
  std::error_code ignored;
  for (size_t i = 0; i < started_.size(); ++i) {
    wait_for(started_[i]);
    std::filesystem::remove_all(scratch_of(static_cast<int>(i) + 1, started_[i].pid), ignored);
  }
  if (!scratch_.empty()) std::filesystem::remove_all(scratch_, ignored);
}

void start_ranks(const std::vector<std::string>& words, int ranks, const std::string& rendezvous,
                 int64_t threads, std::vector<ProcessId>& started) {
  for (int r = 1; r < ranks; ++r) {
    std::vector<std::string> all = words;
    const std::string more[] = {"--rank",  std::to_string(r), "--rendezvous",         rendezvous,
                                "--quiet", "--threads",       std::to_string(threads)};
    all.insert(all.end(), std::begin(more), std::end(more));
    started.push_back(start_beside(all));
  }
}

std::string Ranks::directory(const std::string& out) {
  if (is_first()) return out;
  scratch_ = scratch_of(rank_, getpid());
  return scratch_;
}

}  // namespace ndtrain::cli
