#include "ndp/s3/web_identity.h"

#include <pugixml.hpp>
#include <string>
#include <utility>

#include "framework/core/text.h"
#include "ndp/s3/http_by_curl.h"
#include "ndp/s3/machine_keys.h"
#include "ndp/s3/s3_request.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kStsAnswer = size_t{256} << 10;
constexpr int64_t kIdentityTokenFile = int64_t{64} << 10;

struct WebIdentity {
  std::string token_file, role, session, service;
};

std::string remedy_of_sts(std::string_view code) {
  if (code == "ExpiredTokenException") {
    return "; the token in AWS_WEB_IDENTITY_TOKEN_FILE has expired: see to it that it is renewed";
  }
  if (code == "AccessDenied") {
    return "; have the role's trust policy allow sts:AssumeRoleWithWebIdentity to whom the token "
           "names, or correct AWS_ROLE_ARN";
  }
  if (code == "InvalidIdentityToken" || code == "IDPRejectedClaim") {
    return "; make the token's issuer and its audience known as an identity provider";
  }
  if (code == "ValidationError") return "; check AWS_ROLE_ARN and AWS_ROLE_SESSION_NAME";
  return "";
}

Result<std::string> identity_token(Fs& fs, const std::string& file) {
  Result<std::string> token = fs.read(file, kIdentityTokenFile);
  if (!token.ok()) {
    return Status(Code::kIo, token.status().message() +
                                 "; AWS_WEB_IDENTITY_TOKEN_FILE is to name the service account's "
                                 "token");
  }
  while (token->ends_with('\n') || token->ends_with('\r')) token->pop_back();
  return token;
}

// Its errors are not as S3's are.
Status refusal_of_sts(const CurlAnswer& answer, const std::string& what) {
  pugi::xml_document document;
  (void)document.load_buffer(answer.body.data(), answer.body.size());
  const pugi::xml_node error = document.child("ErrorResponse").child("Error");
  const std::string code = printable(error.child_value("Code"), 128);
  const std::string message = printable(error.child_value("Message"), 512);
  return {Code::kIo, what + " is answered " + std::to_string(answer.status) +
                         (code.empty() ? "" : " " + code) +
                         (message.empty() ? "" : " (" + message + ")") + remedy_of_sts(code)};
}

Result<S3Keys> ask_sts(CurlConnections& connections, Fs& fs, const WebIdentity& identity) {
  if (identity.role.empty()) {
    return Status(Code::kIo,
                  "AWS_WEB_IDENTITY_TOKEN_FILE is set without AWS_ROLE_ARN; set both or neither");
  }
  if (!is_private_way(identity.service)) {
    return Status(Code::kIo, printable(identity.service, 256) +
                                 " would get the token and give keys in the clear; set "
                                 "AWS_ENDPOINT_URL_STS to an https:// address");
  }
  const Result<std::string> token = identity_token(fs, identity.token_file);
  if (!token.ok()) return token.status();
  const std::string form =
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + s3_encoded(identity.role) +
      "&RoleSessionName=" + s3_encoded(identity.session) +
      "&WebIdentityToken=" + s3_encoded(*token);
  const Result<CurlAnswer> answer = connections.send(
      {.method = "POST", .url = identity.service + "/", .body = form, .most = kStsAnswer});
  const std::string what = "AssumeRoleWithWebIdentity of " + printable(identity.service, 256);
  if (!answer.ok()) return Status(Code::kIo, what + ": " + answer.status().message());
  if (answer->status != 200) return refusal_of_sts(*answer, what);
  return parse_web_identity_keys(answer->body);
}

}  // namespace

Result<S3Keys> parse_web_identity_keys(std::string_view xml) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node given = document.child("AssumeRoleWithWebIdentityResponse")
                                   .child("AssumeRoleWithWebIdentityResult")
                                   .child("Credentials");
  S3Keys keys{.access = given.child_value("AccessKeyId"),
              .secret = given.child_value("SecretAccessKey"),
              .token = given.child_value("SessionToken"),
              .expires = time_of_keys(given.child_value("Expiration"))};
  const bool whole = parsed && !keys.access.empty() && !keys.secret.empty() && keys.expires;
  if (whole) return keys;
  return Status(Code::kCorrupt, "the answer to AssumeRoleWithWebIdentity has no keys that last");
}

std::shared_ptr<S3KeySource> web_identity_keys(Fs& fs, const Environment& environment,
                                               Clock& clock) {
  const auto file = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!file) return nullptr;
  const std::string region = s3_region(environment);
  WebIdentity identity{
      .token_file = *file,
      .role = environment("AWS_ROLE_ARN").value_or(""),
      .session = environment("AWS_ROLE_SESSION_NAME").value_or("ndtrain"),
      .service = environment("AWS_ENDPOINT_URL_STS")
                     .value_or(environment("AWS_ENDPOINT_URL")
                                   .value_or("https://sts." + region + ".amazonaws.com"))};
  while (identity.service.ends_with('/')) identity.service.pop_back();
  return std::make_shared<MachineKeys>(
      [connections = std::make_shared<CurlConnections>(), &fs, identity = std::move(identity)] {
        return ask_sts(*connections, fs, identity);
      },
      clock, "the web identity gets no keys");
}

}  // namespace ndtrain::ndp
