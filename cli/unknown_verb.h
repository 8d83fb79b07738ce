#pragma once

#include <string>
#include <vector>

namespace ndtrain::cli {

// Of words that name no verb. Throws UsageError with the nearest one, or those of its family.
[[noreturn]] void unknown_verb(const std::vector<std::string>& words);

}  // namespace ndtrain::cli
