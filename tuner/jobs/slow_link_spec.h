// How the Tuners of a job exchange over slow links, by sync sparse, local, diloco or powersgd: keys
// of the job's JSON, which are the flags of ndtrain train with '_' for '-'.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/json_fwd.h"

namespace ndtrain::tuner {

class JobReader;

// Whether `sync` is one of these. Their models depend on the number of Tuners.
bool is_slow_link(std::string_view sync);

// What was asked for; what was not is the method's own.
struct SlowLinkSpec {
  std::optional<std::string> compressor, scan, all_gather, sparse_momentum, wire_dtype;
  std::optional<double> drop, outer_lr, outer_momentum, mixing;
  std::optional<int64_t> staleness, drain_every, inner_steps, fragments, overlap, factor_rank;
  std::optional<int64_t> verify;     // steps; changes nothing about what is trained
  std::vector<std::string> drop_of;  // "NAME=D" each, see drops.h
  bool pieces = false;
  // Batches and drop follow what Tuners and links take (RateController), by what they cost:
  // the text of a ConvergenceProfile; of one Tuner at most so many rows. JobSpec::dry_run.
  bool controller = false;
  std::optional<std::string> convergence;
  std::optional<int64_t> largest_batch;

  // Throws Error for values of another kind.
  void take(JobReader& r);
  // The keys that were asked for. Older Tuners do not know them.
  void add_to(Json& j) const;
};

// Throws Error where keys are given that another `sync` has.
void refuse_slow_link_keys(const std::string& sync, const SlowLinkSpec& spec);

}  // namespace ndtrain::tuner
