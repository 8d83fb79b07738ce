#include "cli/upload_client.h"

#include "cli/args.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr auto kUploadPatience = std::chrono::seconds(60);

Result<UploadAnswer> post(const std::string& address, const std::string& path,
                          const std::string& bytes, const HttpTrust& trust) {
  Result<HttpResponse> r =
      HttpClient(address, kUploadPatience, trust).post(path, bytes, "image/jpeg");
  if (!r.ok()) return r.status();
  return UploadAnswer{.response = std::move(*r), .store = address};
}

}  // namespace

std::string http_address(std::string url) {
  const size_t scheme = url.find("://"), host = scheme == std::string::npos ? 0 : scheme + 3;
  url.erase(std::min(url.find('/', host), url.size()));
  if (url.find(':', host) == std::string::npos) {
    throw UsageError("URL: http://HOST:PORT or https://HOST:PORT is needed");
  }
  return url;
}

Result<UploadAnswer> upload_photo(const std::string& address, const std::string& bytes,
                                  const HttpTrust& trust) {
  Result<UploadAnswer> first = post(address, "/photos", bytes, trust);
  if (!first.ok() || first->response.status != 307) return first;
  const auto location = first->response.headers.find("Location");
  if (location == first->response.headers.end()) return first;
  const std::string store = http_address(location->second);
  // The ticket in it does there; nobody's own token goes to a store.
  return post(store, location->second.substr(store.size()), bytes, {.tls = trust.tls});
}

}  // namespace ndtrain::cli
