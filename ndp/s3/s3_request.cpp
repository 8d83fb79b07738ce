#include "ndp/s3/s3_request.h"

#include <cctype>
#include <utility>

#include "framework/core/hash.h"

namespace ndtrain::ndp {
namespace {

// Sorted and encoded, as the signature is of it.
std::string url_of(const S3Settings& settings, const S3Request& request) {
  std::string url = settings.endpoint + "/" + request.bucket + "/" + s3_encoded(request.key, "/");
  char between = '?';
  for (const auto& [name, value] : request.query) {
    url += between + s3_encoded(name) + "=" + s3_encoded(value);
    between = '&';
  }
  return url;
}

}  // namespace

std::string s3_encoded(std::string_view text, std::string_view keep) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte) != 0) ||
                       std::string_view("-._~").find(c) != std::string_view::npos ||
                       keep.find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

S3Connections::S3Connections(S3Settings settings) : settings_(std::move(settings)) {}

Result<CurlAnswer> S3Connections::send(const S3Request& request) {
  const Result<S3Keys> keys = settings_.keys->keys();
  if (!keys.ok()) return Status(Code::kIo, keys.status().message());  // later there may be some
  CurlRequest sent{.method = request.method,
                   .url = url_of(settings_, request),
                   .headers = request.headers,
                   .body = request.body,
                   .most = request.most,
                   .signed_as = "aws:amz:" + settings_.region + ":s3",
                   .keys = keys->access + ":" + keys->secret};
  sent.headers.push_back("x-amz-content-sha256: " + to_hex(sha256(request.body)));
  if (!keys->token.empty()) sent.headers.push_back("x-amz-security-token: " + keys->token);
  Result<CurlAnswer> answer = connections_.send(sent);
  if (answer.ok() || answer.status().code() != Code::kIo) return answer;
  return Status(Code::kIo, settings_.endpoint + ": " + answer.status().message());
}

}  // namespace ndtrain::ndp
