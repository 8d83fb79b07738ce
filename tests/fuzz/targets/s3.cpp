#include "ndp/s3/http_date.h"
#include "ndp/s3/s3_client.h"
#include "ndp/s3/web_identity.h"
#include "tests/fuzz/fuzz_target.h"

namespace ndtrain::fuzz {
namespace {

bool read_listing(std::string_view input) { return ndp::parse_s3_page(input).ok(); }
std::vector<std::string> listings() {
  return {
      "<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType><Contents>"
      "<Key>a%20b%2Fc.jpg</Key><LastModified>2026-11-29T01:02:03.456Z</LastModified>"
      "<ETag>&quot;900150983cd24fb0d6963f7d28e17f72&quot;</ETag><Size>3</Size></Contents>"
      "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
      "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>"};
}

bool read_failure(std::string_view input) { return !ndp::parse_s3_failure(input).code.empty(); }
std::vector<std::string> failures() {
  return {"<Error><Code>NoSuchKey</Code><Message>none &amp; nowhere</Message></Error>"};
}

bool read_web_identity(std::string_view input) { return ndp::parse_web_identity_keys(input).ok(); }
std::vector<std::string> web_identities() {
  return {
      "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
      "<AccessKeyId>a</AccessKeyId><SecretAccessKey>b</SecretAccessKey>"
      "<SessionToken>c</SessionToken><Expiration>2026-11-29T01:02:03Z</Expiration>"
      "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"};
}

bool read_http_date(std::string_view input) {
  (void)ndp::retry_after({{"retry-after", std::string(input)}}, 0);
  return ndp::parse_http_date(std::string(input)).has_value();
}
std::vector<std::string> http_dates() {
  return {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
          "Sun Nov  6 08:49:37 1994"};
}

}  // namespace

std::vector<FuzzTarget> s3_targets() {
  return {{"s3_listing", read_listing, listings},
          {"s3_failure", read_failure, failures},
          {"web_identity", read_web_identity, web_identities},
          {"http_date", read_http_date, http_dates}};
}

}  // namespace ndtrain::fuzz
