// Flags of training over slow links: --sync sparse, local, diloco and powersgd.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"
#include "framework/core/fs.h"
#include "ndp/jobs/slow_link_choice.h"

namespace ndtrain::cli {
using namespace ndp;

// Those of sparse_args.h and local_args.h, --factor-rank and --verify. It has --staleness and
// --drain-every, too, which stages have declared.
void declare_slow_link(ArgsSpec& args);

using ndp::is_slow_link;
bool is_slow_link(const Args& args);  // its --sync

// What was asked for, but --convergence, which is a file. `with_shared`: also by --staleness,
// --drain-every and --wire-dtype, which ndtrain train has for other exchanges, too.
SlowLinkSpec slow_link_spec_of(const Args& args, bool with_shared);

// What other exchanges can do and these do not: throws UsageError where `asked`, flags as they are
// given, come with it.
void refuse_what_is_of_others(const Args& args, const std::string& asked);

// Of training `model`, a file, so; none with another --sync. Throws UsageError where flags do not
// go together, and as read_rates() does.
std::optional<SlowLinkChoice> slow_link_of(const Args& args, Fs& fs, const std::string& model,
                                           const TrainerConfig& trainer);

// --site, where a rank or Tuner is; "" where it is not given. Throws UsageError where it is no
// name.
void declare_site(ArgsSpec& args, const std::string& who);
std::string site_of(const Args& args);

// These as flags and their values, also where they were not given: another model with others.
std::vector<std::pair<std::string, std::string>> settings_of(const ExchangeMethod& method);

}  // namespace ndtrain::cli
