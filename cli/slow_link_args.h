// Flags of training over slow links: --sync sparse, local, diloco and powersgd.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/args.h"
#include "framework/sparse/local/local_steps.h"
#include "framework/sparse/low_rank/power_sgd.h"
#include "framework/sparse/sync/sparse_sync.h"
#include "ndp/jobs/slow_link_method.h"

namespace ndtrain::cli {
using namespace ndp;

// Those of sparse_args.h and local_args.h, --factor-rank and --verify. It has --staleness and
// --drain-every, too, which stages have declared.
void declare_slow_link(ArgsSpec& args);

// Whether `sync` is one of these.
bool is_slow_link(std::string_view sync);
bool is_slow_link(const Args& args);

// What other exchanges can do and these do not: throws UsageError where `asked`, flags as they are
// given, come with it.
void refuse_what_is_of_others(const Args& args, const std::string& asked);

struct SlowLinkAsked {
  std::string name;  // of --sync
  std::variant<SparseSyncOptions, LocalStepsOptions, PowerSgdOptions> options;
  int64_t drain_every = SlowLinkTraining::Options{}.drain_every;
  int64_t verify_every = 0;  // steps; of no consequence for what is trained
};
// None with another --sync. Throws UsageError where flags do not go together.
std::optional<SlowLinkAsked> slow_link_of(const Args& args, uint64_t seed);

SlowLinkMethod method_of(const SlowLinkAsked& asked);

// --site, where a rank or Tuner is; "" where it is not given. Throws UsageError where it is no
// name.
void declare_site(ArgsSpec& args, const std::string& who);
std::string site_of(const Args& args);

// These as flags and their values, also where they were not given: another model with others.
std::vector<std::pair<std::string, std::string>> settings_of(const SlowLinkAsked& asked);

}  // namespace ndtrain::cli
