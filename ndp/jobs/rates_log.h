// Where a run keeps what its controller of batches and drop decided, and why.
#pragma once

#include <functional>
#include <string>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

// In a run directory, of rank 0: a line each.
inline constexpr const char* kRatesLog = "rates.log";

// Adds lines to it, whose directory has to be there by then. What cannot be written is a warning:
// a training is worth more than its log. Keeps `fs`. One thread.
std::function<void(const std::string& line)> rates_log(Fs& fs, const std::string& directory);

}  // namespace ndtrain::ndp
