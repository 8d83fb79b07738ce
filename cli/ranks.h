// A training by several ranks: who they are, and how they meet.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/args.h"
#include "cli/launcher.h"
#include "cli/nccl_offer.h"
#include "cli/security_args.h"
#include "cli/started_ranks.h"
#include "framework/comm/communicator.h"

namespace ndtrain::cli {

// --ranks, --rank, --rendezvous, --comm, --rank-timeout, and those of security: how ranks meet.
void declare_meeting(ArgsSpec& args);
// These, and --shards, --sync, --bucket-size, --shares, --trace, --collectives,
// --on-rank-loss of a training.
void declare_ranks(ArgsSpec& args);

// Flags of ranks that change nothing about what a training gives.
inline constexpr std::string_view kUndecisiveRankFlags[] = {
    "ranks",           "rank",  "rendezvous",   "comm",         "sync", "bucket-size", "shares",
    "shard-optimizer", "trace", "rank-timeout", "on-rank-loss", "ca",   "cert",        "key",
    "insecure"};

// Of --bucket-size: 0 where the schedule has its own, or where it is auto.
struct BucketSize {
  int64_t bytes = 0;
  bool tuned = false;
};

// The ranks of a run as this process has them: what mpirun or srun has started, which talk by MPI;
// those that meet at a rendezvous; or processes that rank 0 starts with its own command line.
class Ranks {
 public:
  // Throws UsageError for flags that make no sense. What mpirun or srun has started waits for the
  // others; Error when MPI has another number of them, there is no plugin for it, or a rendezvous
  // that other machines reach is not protected.
  Ranks(Context& context, const Args& args);

  // Starts the others where that is asked for, and meets them, when there are several. By NCCL the
  // context's device is then one that no other rank has. Throws Error when somebody does not come,
  // or cannot talk so.
  void meet(const Args& args, Context& context);

  int count() const { return count_; }
  int rank() const { return rank_; }
  bool on_one_machine() const { return on_one_machine_; }  // as far as is known
  bool is_first() const { return rank_ == 0; }
  bool share_a_terminal() const { return launched_ != nullptr; }  // mpirun's; before meet()
  // Where this rank keeps its run: `out` is rank 0's; others have a directory that goes with them.
  std::string directory(const std::string& out);
  std::vector<double> shares() const { return shares_; }
  bool measures_shares() const { return measures_shares_; }
  BucketSize bucket_size() const { return bucket_size_; }
  bool native_collectives() const { return native_collectives_; }
  const std::string& library() const { return library_; }  // that ranks talk by; "": TCP
  bool regroup() const { return regroup_; }                // where one is lost
  // These were lost. Where this process has started them, they are ended.
  void give_up(const std::vector<int>& ranks) { started_.end(ranks); }
  // Null when there is one rank.
  std::unique_ptr<Communicator> take_communicator() { return std::move(communicator_); }
  Communicator* communicator() const { return communicator_.get(); }

 private:
  void be_told(Context& context, const Args& args);
  void join_launched(const Args& args, const std::optional<Launcher>& by);
  void check_collectives(const Args& args, const LibraryOffer& offer);
  void check_nccl(const Args& args, const LibraryOffer& offer) const;
  std::unique_ptr<Transport> add_nccl(std::unique_ptr<Transport> messages, const Args& args,
                                      Context& context);
  std::unique_ptr<Transport> meet_by_tcp(const Args& args);
  void share_cores(const Args& args, int ranks_here);

  int count_ = 1, rank_ = 0;
  bool on_one_machine_ = false, regroup_ = false, measures_shares_ = false;
  std::chrono::seconds timeout_{0};
  RankNet net_;  // by TCP
  std::vector<double> shares_;
  BucketSize bucket_size_;
  StartedRanks started_;  // waited for at the end
  std::optional<ScratchDirectory> scratch_;
  std::string library_;
  bool native_collectives_ = false, by_nccl_ = false;
  std::unique_ptr<Transport> launched_;         // by mpirun or srun
  std::unique_ptr<Communicator> communicator_;  // ends first
};

}  // namespace ndtrain::cli
