// What one process does at a time, and others wait for.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/core/fs.h"
#include "ndp/jobs/progress.h"

namespace ndtrain::ndp {

// Takes something, again and again while that is kExists, because somebody else has it: says so
// once, with `remedy`. kCancelled when the job is interrupted meanwhile.
Status take_in_turn(const std::function<Status()>& take, const std::string& remedy,
                    Progress& progress);

// A lock file, taken so: see lock_as().
Result<std::unique_ptr<FileLock>> lock_in_turn(Fs& fs, const std::string& path,
                                               const std::string& who, const std::string& remedy,
                                               Progress& progress);

}  // namespace ndtrain::ndp
