// A lock file that says who holds it, for the message of whoever comes and finds it held.
#pragma once

#include <memory>
#include <string>

#include "framework/core/fs.h"

namespace ndtrain {

// As Fs::lock. `who` is for people, such as "ndtrain train -o runs/a"; process and host are added.
// kExists: "PATH is held by process 71 on attic (ndtrain train -o runs/a)".
Result<std::unique_ptr<FileLock>> lock_as(Fs& fs, const std::string& path, const std::string& who);

}  // namespace ndtrain
