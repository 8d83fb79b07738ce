#include "cli/flags_of_train.h"

#include <span>
#include <string_view>

namespace ndtrain::cli {
namespace {

struct Reason {
  std::span<const std::string_view> flags;
  std::string_view why;
};

constexpr std::string_view kRanks[] = {"ranks",  "rank",  "rendezvous",   "comm",     "collectives",
                                       "shares", "trace", "on-rank-loss", "comm-only"},
                           kExchange[] = {"bucket-size", "shard-optimizer", "allow-lossy"},
                           kStages[] = {"plan", "replicas", "stages-per-rank",
                                        "no-input-pipelining", "recompute"},
                           kMachine[] = {"device", "threads", "tuning", "tf32", "less-memory"},
                           kLink[] = {"ca", "cert", "key", "crl", "insecure"},
                           kMember[] = {"site", "rank-timeout"},
                           kCollection[] = {"collection", "task", "name", "note", "tag"},
                           kDb[] = {"db"}, kPseudo[] = {"pseudo"}, kCache[] = {"cache"},
                           kCacheType[] = {"cache-dtype"}, kMemory[] = {"memory-limit"},
                           kResume[] = {"resume"}, kConfig[] = {"config"}, kOut[] = {"out"},
                           kFastDecode[] = {"fast-decode"};

constexpr Reason kReasons[] = {
    {kRanks, "a job is trained by Tuners, not by ranks; --tuners says how many"},
    {kExchange, "Tuners exchange whole gradients, or as --sync with its flags has it"},
    {kStages, "Tuners plan stages by what they measure; --parallel and --micro-batches say how"},
    {kMachine, "it is of the process that computes: ndtrain tuner serve, or pipestore serve"},
    {kLink, "it is of the link between Tuner and stores: ndtrain tuner serve has it"},
    {kMember, "it is of Tuners: ndtrain tuner serve and tuner join have it"},
    {kCollection,
     "a Tuner for one job has one collection and keeps no list of jobs; ndtrain job "
     "submit, to one that serves, has it"},
    {kDb, "a job goes by the Tuner's label database, which ndtrain tuner serve --db names"},
    {kPseudo, "a job trains on what people, imports and folders say, not on labels of models"},
    {kCache, "features are kept by stores and the Tuner, in their state directories"},
    {kCacheType, "of a job it is --feature-dtype"},
    {kMemory, "of a job it is --memory"},
    {kResume,
     "a job that was interrupted goes on by itself, and one that is paused or has failed "
     "by ndtrain job resume"},
    {kConfig, "ndtrain job show JOB --json has what a job was asked for"},
    {kOut, "the run is in the Tuner's state directory"},
    {kFastDecode,
     "stores decode as the model file says; one that ndtrain train --fast-decode has "
     "written says so"}};

}  // namespace

void refuse_flags_of_train(ArgsSpec& args) {
  for (const Reason& reason : kReasons) {
    for (const std::string_view flag : reason.flags) args.lacks(flag, reason.why);
  }
}

}  // namespace ndtrain::cli
