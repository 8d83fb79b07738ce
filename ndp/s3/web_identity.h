// Keys of a role for whoever shows a token of an identity provider (OpenID Connect), which is what
// Kubernetes gives to the pods of a service account: asked for by AssumeRoleWithWebIdentity of the
// Security Token Service, as the AWS SDKs do ("Assume role with web identity" in their reference
// guide).
#pragma once

#include <memory>
#include <string_view>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/s3/s3_settings.h"

namespace ndtrain::ndp {

// Of AWS_WEB_IDENTITY_TOKEN_FILE, which is read each time since it is replaced while it is good,
// AWS_ROLE_ARN and AWS_ROLE_SESSION_NAME ("ndtrain"), at AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL,
// else Amazon's own for the region. They are renewed as a machine's keys are (machine_keys.h). Null
// where the file is not named, and in a build without S3.
std::shared_ptr<S3KeySource> web_identity_keys(Fs& fs, const Environment& environment,
                                               Clock& clock);

// What the service answers, XML. kCorrupt: it has no keys.
Result<S3Keys> parse_web_identity_keys(std::string_view xml);

}  // namespace ndtrain::ndp
