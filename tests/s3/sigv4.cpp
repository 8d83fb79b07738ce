#include "tests/s3/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <vector>

#include "framework/core/hash.h"

namespace ndtrain::support {
namespace {

std::string hmac(const std::string& key, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &size);
  return {reinterpret_cast<const char*>(out.data()), size};
}

std::string sorted_query(const std::string& query) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    parts.push_back(query.substr(begin, end - begin));
    begin = end + 1;
  }
  std::ranges::sort(parts);
  std::string out;
  for (const std::string& p : parts) out += (out.empty() ? "" : "&") + p;
  return out;
}

}  // namespace

std::string sigv4(const SignedParts& p, const std::string& secret) {
  std::string headers, names;
  for (const auto& [name, value] : p.headers) {
    headers += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical = p.method + "\n" + p.path + "\n" + sorted_query(p.query) + "\n" +
                                headers + "\n" + names + "\n" + p.payload_hash;
  const std::string day = p.time.substr(0, 8);
  const std::string scope = day + "/" + p.region + "/" + p.service + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + p.time + "\n" + scope + "\n" + to_hex(sha256(canonical));
  std::string key = hmac("AWS4" + secret, day);
  for (const std::string& part : {p.region, p.service, std::string("aws4_request")}) {
    key = hmac(key, part);
  }
  const std::string signature = hmac(key, to_sign);
  return to_hex({reinterpret_cast<const uint8_t*>(signature.data()), signature.size()});
}

}  // namespace ndtrain::support
