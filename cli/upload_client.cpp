#include "cli/upload_client.h"

#include "cli/args.h"

namespace ndtrain::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

Result<UploadAnswer> post(const std::string& address, const std::string& bytes) {
  Result<HttpResponse> r = HttpClient(address, kPatience).post("/photos", bytes, "image/jpeg");
  if (!r.ok()) return r.status();
  return UploadAnswer{.response = std::move(*r), .store = address};
}

}  // namespace

std::string http_address(std::string url) {
  constexpr std::string_view kHttp = "http://";
  if (url.starts_with(kHttp)) url.erase(0, kHttp.size());
  url.erase(std::min(url.find('/'), url.size()));
  if (url.find(':') == std::string::npos) throw UsageError("URL: http://HOST:PORT is needed");
  return url;
}

Result<UploadAnswer> upload_photo(const std::string& address, const std::string& bytes) {
  Result<UploadAnswer> first = post(address, bytes);
  if (!first.ok() || first->response.status != 307) return first;
  const auto location = first->response.headers.find("Location");
  if (location == first->response.headers.end()) return first;
  return post(http_address(location->second), bytes);
}

}  // namespace ndtrain::cli
