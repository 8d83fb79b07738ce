// --photos of stores: a directory, or NAME=DIR for each of several stores in a process.
#pragma once

#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "ndp/pipestore/daemon.h"

namespace ndtrain::cli {

// Empty: one directory, which has no name, or none. Throws UsageError: several, of which one has
// none; a name or directory twice.
std::vector<ndp::HostedPhotos> hosted_photos_in(Fs& fs, const std::vector<std::string>& photos);

// Throws UsageError: of a process of this --name no store can be called so; --labels `labels` are
// of one directory.
void check_hosted_photos(const std::vector<ndp::HostedPhotos>& several, const std::string& process,
                         const std::string& labels);

}  // namespace ndtrain::cli
