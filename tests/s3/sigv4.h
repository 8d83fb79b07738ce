// The signature of AWS Signature Version 4, made by what Amazon wrote of it and by nothing of ours
// (docs.aws.amazon.com, "Create a signed AWS API request").
#pragma once

#include <map>
#include <string>

namespace ndtrain::support {

struct SignedParts {
  std::string method, path, query;             // as on the wire
  std::map<std::string, std::string> headers;  // that are signed; names in lower case
  std::string payload_hash;                    // hex
  std::string time, region, service;           // 20150830T123600Z
};

std::string sigv4(const SignedParts& parts, const std::string& secret);

}  // namespace ndtrain::support
