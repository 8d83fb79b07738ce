// Where verbs find photos: on this machine, in S3 (ndp/s3/s3_fs.h) and in RADOS
// (ndp/rados/rados_fs.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/context.h"
#include "ndp/rados/rados_fs.h"

namespace ndtrain::cli {

// Files of the context's Fs, s3://BUCKET/KEY by the keys that the environment has, and those
// objects of rados://POOL/NAMESPACE that `scope` says. Keeps a reference to the context.
std::unique_ptr<ndp::RadosFs> photo_fs(Context& context, ndp::RadosScope scope = {});

// Throws UsageError where one of these is in S3 or RADOS, for verbs that do not read these.
void refuse_object_stores(const std::vector<std::string>& photos);

}  // namespace ndtrain::cli
