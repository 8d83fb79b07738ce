#include "ndp/http/http_origin.h"

#include <algorithm>
#include <cctype>

namespace ndtrain::ndp {
namespace {

// What names of a host differ in without being other names.
std::string plain(std::string_view host) {
  std::string text(host);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// "*.example.org" is of one label more.
bool means(const std::string& name, const std::string& host) {
  if (!name.starts_with("*.")) return name == host;
  const size_t dot = host.find('.');
  return dot != host.npos && dot > 0 && host.substr(dot) == name.substr(1);
}

// Whether a page of this server asks, by its Origin.
bool is_own(std::string_view origin, const HttpHead& head, bool tls) {
  const size_t host = origin.find("://");
  return host != std::string_view::npos && origin.substr(host + 3) == head.field("Host") &&
         head.count("Origin") == 1 && (!tls || origin.substr(0, host) == "https");
}

}  // namespace

std::string host_of_address(const std::string& address) {
  if (address.starts_with("unix:")) return address;
  const size_t colon = address.rfind(':'), bracket = address.rfind(']');
  const bool port = colon != address.npos && (bracket == address.npos || colon > bracket) &&
                    (bracket != address.npos || address.find(':') == colon);
  return port ? address.substr(0, colon) : address;
}

bool is_loopback_host(const std::string& host) {
  const bool v4 =
      host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
  return v4 || host == "[::1]" || host == "localhost";
}

std::optional<HttpResponse> wrong_host(const HttpHead& head, const std::vector<std::string>& names,
                                       const std::string& local) {
  const std::string host = plain(host_of_address(std::string(head.field("Host"))));
  if (host.empty()) return http_error(400, "Host is missing, which says whom the request is for");
  if (host == local) return std::nullopt;
  // A unix socket is this machine's own, too.
  if (is_loopback_host(local) || local.starts_with("unix:")) {
    for (const char* own : {"127.0.0.1", "[::1]", "localhost"}) {
      if (host == own) return std::nullopt;
    }
  }
  const auto it =
      std::ranges::find_if(names, [&](const std::string& n) { return means(plain(n), host); });
  if (it != names.end()) return std::nullopt;
  return http_error(421, "Host " + host.substr(0, 253) +
                             " is no name of this server; if it shall be, start it with "
                             "--http-name " +
                             host.substr(0, 253));
}

std::optional<bool> is_foreign(const HttpHead& head) {
  const std::string_view origin = head.field("Origin"), from = head.field("Sec-Fetch-Site");
  if (!from.empty()) {
    return (from != "same-origin" && from != "none") || head.count("Sec-Fetch-Site") != 1;
  }
  if (origin.empty()) return std::nullopt;
  return !is_own(origin, head, false);
}

std::optional<HttpResponse> wrong_origin(const HttpHead& head, const HttpAsked& asked) {
  const std::string origin(head.field("Origin"));
  const bool reads = head.method == "GET" || head.method == "HEAD";
  const bool foreign = is_foreign(head).value_or(false);
  if (reads && (asked.of_anyone || !foreign)) return std::nullopt;
  if (!reads && asked.by_session && !foreign && !is_own(origin, head, asked.tls)) {
    return http_error(403,
                      "a browser that is signed in changes something from our own pages only; "
                      "the request's Origin is '" +
                          origin.substr(0, 256) + "'");
  }
  if (!foreign) return std::nullopt;
  return http_error(403, "a page of " + (origin.empty() ? "another site" : origin.substr(0, 256)) +
                             " asks for it, which is another site than this");
}

}  // namespace ndtrain::ndp
