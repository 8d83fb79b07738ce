#include "cli/photo_fs.h"

#include "cli/args.h"
#include "ndp/rados/rados_url.h"
#include "ndp/s3/machine_keys.h"
#include "ndp/s3/s3_fs.h"
#include "ndp/s3/web_identity.h"

namespace ndtrain::cli {
using namespace ndp;

std::unique_ptr<RadosFs> photo_fs(Context& context, RadosScope scope) {
  auto s3 = with_s3(context.fs(), context.clock(), [&fs = context.fs(), &clock = context.clock()] {
    const Environment environment = process_environment();
    return s3_settings(fs, environment, machine_keys(fs, environment, clock),
                       web_identity_keys(fs, environment, clock));
  });
  return with_rados(std::move(s3), context.clock(), std::move(scope));
}

void refuse_object_stores(const std::vector<std::string>& photos) {
  for (const std::string& path : photos) {
    if (!is_s3_url(path) && !is_rados_url(path)) continue;
    throw UsageError(path + ": this verb does not read " + (is_s3_url(path) ? "S3" : "RADOS") +
                     "; relabel and pipestore serve do, or copy the photos to a directory");
  }
}

}  // namespace ndtrain::cli
