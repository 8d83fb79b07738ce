// --photos of stores: a directory, or NAME=DIR for each of several collections.
#pragma once

#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "ndp/pipestore/daemon.h"

namespace ndtrain::cli {

// Empty: one directory, which names no collection, or none. Throws UsageError: several, of which
// one has no name; a collection or directory twice.
std::vector<ndp::HostedCollection> collections_in(Fs& fs, const std::vector<std::string>& photos);

// Throws UsageError: of a process of this --name no store can be called so; --labels `labels` are
// of one directory.
void check_collections(const std::vector<ndp::HostedCollection>& collections,
                       const std::string& process, const std::string& labels);

}  // namespace ndtrain::cli
