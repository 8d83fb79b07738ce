// Where verbs find photos: on this machine, and in S3 (ndp/s3/s3_fs.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/context.h"

namespace ndtrain::cli {

// Files of the context's Fs, and s3://BUCKET/KEY by the keys that the environment has. Keeps a
// reference to the context.
std::unique_ptr<Fs> photo_fs(Context& context);

// Throws UsageError where one of these is in S3, for verbs that do not read it.
void refuse_s3(const std::vector<std::string>& photos);

}  // namespace ndtrain::cli
