#include "ndp/http/http_client.h"

#include <fmt/format.h>

#include "framework/core/limits.h"
#include "ndp/http/httplib_stream.h"

namespace ndtrain {
namespace {

// One request over a stream that is there already.
class Asking final : private httplib::ClientImpl {
 public:
  Asking() : ClientImpl("localhost") {}
  bool ask(HttplibStream& io, httplib::Request& request, httplib::Response& response) {
    httplib::Error ignored = httplib::Error::Success;  // the stream knows better
    return process_request(io, request, response, true, ignored);
  }
};

constexpr std::string_view kHttp = "http://", kHttps = "https://";

std::string without_scheme(const std::string& address) {
  if (address.starts_with(kHttp)) return address.substr(kHttp.size());
  return address.starts_with(kHttps) ? address.substr(kHttps.size()) : address;
}

// Without port and brackets.
std::string host_of(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

HttpClient::HttpClient(const std::string& address, std::chrono::milliseconds patience,
                       HttpTrust trust)
    : secure_(address.starts_with(kHttps)),
      address_(without_scheme(address)),
      patience_(patience),
      trust_(std::move(trust)) {
  if (secure_ && !trust_.tls) trust_.tls = TlsClient::make("").or_throw();
}

Result<std::unique_ptr<Stream>> HttpClient::connect() const {
  Result<std::unique_ptr<Stream>> stream = real_net().dial(address_);
  if (!stream.ok() || !secure_) return stream;
  return trust_.tls->wrap(std::move(*stream), host_of(address_), patience_);
}

Result<HttpResponse> HttpClient::get(const std::string& path) const {
  return ask("GET", path, "", "");
}

Result<HttpResponse> HttpClient::post(const std::string& path, const std::string& body,
                                      const std::string& type) const {
  return ask("POST", path, body, type);
}

Result<HttpResponse> HttpClient::put(const std::string& path, const std::string& body) const {
  return ask("PUT", path, body, "application/octet-stream");
}

Result<HttpResponse> HttpClient::remove(const std::string& path) const {
  return ask("DELETE", path, "", "");
}

Result<HttpResponse> HttpClient::ask(const std::string& method, const std::string& path,
                                     const std::string& body, const std::string& type) const {
  const Result<std::unique_ptr<Stream>> stream = connect();
  if (!stream.ok()) return stream.status();
  HttplibStream io(**stream, patience_);

  HttpResponse answer;
  bool fits = true;
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.body = body;
  if (!type.empty()) request.set_header("Content-Type", type);
  if (!trust_.token.empty()) request.set_header("Authorization", "Bearer " + trust_.token);
  request.set_header("Host", address_.starts_with("unix:") ? "localhost" : address_);
  request.content_receiver = [&](const char* data, size_t n, uint64_t, uint64_t) {
    fits = n <= static_cast<size_t>(limits::kHttpAnswer) - answer.body.size();
    if (fits) answer.body.append(data, n);
    return fits;
  };
  httplib::Response response;
  if (Asking().ask(io, request, response)) {
    answer.status = response.status;
    answer.type = response.get_header_value("Content-Type");
    answer.headers.insert(response.headers.begin(), response.headers.end());
    return answer;
  }
  const std::string what = method + " " + path;
  if (!fits) {
    return Status(Code::kTooLarge,
                  fmt::format("{}: the answer to {} has more than {} bytes, the most that is read",
                              address_, what, limits::kHttpAnswer));
  }
  if (io.trouble().code() == Code::kCancelled) {
    return Status(Code::kCancelled, fmt::format("{}: no answer to {} within {} s", address_, what,
                                                static_cast<double>(patience_.count()) / 1000));
  }
  if (!io.trouble().ok()) return io.trouble();
  return Status(Code::kIo, fmt::format("{}: {} {}", address_,
                                       io.ended() ? "closed the connection before it answered"
                                                  : "this is no HTTP that comes in answer to",
                                       what));
}

}  // namespace ndtrain
