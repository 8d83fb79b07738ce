// What a simulation sees of the roles from outside, and what they have promised. A promise that is
// broken is a violation: the seed has found a bug.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/core/hash.h"
#include "ndp/wire/wire.pb.h"
#include "tuner/ingest/manifest.h"

namespace ndtrain::sim {
using namespace tuner;

// How far the job is.
enum class Stage {
  kDown,        // no Tuner
  kBefore,      // no manifest yet
  kValidation,  // rows of run 0 come in
  kFirstRun,    // of run 1, nothing is trained
  kSecondRun,   // of run 2, run 1 is trained
  kPublishing,  // nothing is left to train
  kLabelling,   // the relabelling has begun
  kDone,
  kStages
};

class Watch {
 public:
  void violation(const std::string& what) {
    if (violations_.size() < 10) violations_.push_back(what);
  }
  const std::vector<std::string>& violations() const { return violations_; }

  // A store sends rows, on a link, and the Tuner acknowledges them.
  void sends(uint64_t link, const wire::Rows& rows);
  void acknowledges(uint64_t link, const wire::Ack& ack);

  // Where the Tuner keeps a job's rows. Of another manifest than before, or made by another model,
  // they are others: the job begins anew.
  void opened(uint64_t job, const Manifest& manifest, const std::string& model,
              const std::vector<uint64_t>& durable);
  void kept(uint64_t job, uint64_t number);

  Stage stage = Stage::kBefore;
  std::map<Digest, std::string> spool;  // what was there when all was trained
  uint64_t repeats = 0;                 // rows that were kept again
  // To each store, on whatever session.
  std::map<size_t, uint64_t> model_bytes;
  uint64_t ways = 0;      // by deltas, that stores were given
  uint64_t chains = 0;    // of them, of more than one
  uint64_t failures = 0;  // of them

 private:
  struct Job {
    std::pair<Digest, std::string> rows;  // of which manifest, and by what
    std::set<uint64_t> durable;           // as far as was said
    std::set<uint64_t> promised;          // acknowledged to some store
  };
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, std::vector<uint64_t>>
      chunks_;  // link, job, chunk
  std::map<uint64_t, Job> jobs_;
  std::vector<std::string> violations_;
};

}  // namespace ndtrain::sim
