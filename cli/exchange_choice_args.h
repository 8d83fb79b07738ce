// Flags of --sync auto that may take what is for slow links.
#pragma once

#include <optional>

#include "cli/args.h"
#include "cli/context.h"
#include "ndp/jobs/exchange_choice.h"

namespace ndtrain::cli {

void declare_exchange_choice(ArgsSpec& args);
// None without --allow-lossy. Each candidate has the settings of `ndtrain train` by default. Throws
// UsageError where flags do not go together, Error for a convergence profile that is none.
std::optional<ExchangeChoice> exchange_choice_of(Context& context, const Args& args, int ranks);

}  // namespace ndtrain::cli
