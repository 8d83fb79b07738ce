#include "ndp/s3/http_by_curl.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

struct HeaderList {
  HeaderList() = default;
  ~HeaderList() { curl_slist_free_all(first); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  void add(const std::string& line) {
    curl_slist* const longer = curl_slist_append(first, line.c_str());
    if (!longer) throw Error("out of memory for a header");
    first = longer;
  }
  curl_slist* first = nullptr;
};

struct Incoming {
  CurlAnswer answer;
  size_t most = 0;
  bool too_long = false;
};

size_t take_body(char* data, size_t size, size_t count, void* to) {
  auto& in = *static_cast<Incoming*>(to);
  const size_t bytes = size * count;
  if (in.answer.body.size() + bytes > in.most) {
    in.too_long = true;
    return 0;
  }
  in.answer.body.append(data, bytes);
  return bytes;
}

size_t take_header(char* data, size_t size, size_t count, void* to) {
  auto& in = *static_cast<Incoming*>(to);
  std::string_view line(data, size * count);
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size * count;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  line.remove_prefix(colon + 1);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (name == "content-length") {
    size_t length = 0;
    std::from_chars(line.data(), line.data() + line.size(), length);
    in.answer.body.reserve(std::min(length, in.most));
  }
  in.answer.headers[name] = std::string(line);
  return size * count;
}

using Number = long;  // NOLINT(google-runtime-int): libcurl's

// Whether libcurl would make another path of it (RFC 3986, 5.2.4). Later versions, as Debian 13's,
// sign no path as it is: such an object cannot be asked for there, and the others must not be.
bool has_dot_part(std::string_view url) {
  url = url.substr(0, url.find('?'));
  for (const std::string_view part : {"/.", "/.."}) {
    if (url.ends_with(part) || url.find(std::string(part) + '/') != std::string_view::npos)
      return true;
  }
  return false;
}

bool refuses_as_it_is(std::string_view why) {
  return why.find("path-as-is") != std::string_view::npos;
}

void describe(CURL* curl, const CurlRequest& request) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  if (has_dot_part(request.url)) curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, Number{request.connect_seconds});
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, Number{request.stall_seconds});
  if (!request.signed_as.empty()) {
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, request.signed_as.c_str());
    curl_easy_setopt(curl, CURLOPT_USERPWD, request.keys.c_str());
  }
  if (request.method == "HEAD") curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  if (request.method == "PUT" || request.method == "POST") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data() ? request.body.data() : "");
  }
  if (request.method == "PUT" || request.method == "DELETE") {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

}  // namespace

struct CurlConnections::Handle {
  Handle() : curl(curl_easy_init()) {
    if (!curl) throw Error("libcurl does not start");
  }
  ~Handle() { curl_easy_cleanup(curl); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  CURL* const curl;
};

CurlConnections::CurlConnections() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) throw Error("libcurl does not start: ", curl_easy_strerror(started));
}

CurlConnections::~CurlConnections() = default;

std::unique_ptr<CurlConnections::Handle> CurlConnections::take() {
  const std::lock_guard guard(mutex_);
  if (idle_.empty()) return std::make_unique<Handle>();
  std::unique_ptr<Handle> handle = std::move(idle_.back());
  idle_.pop_back();
  return handle;
}

void CurlConnections::give(std::unique_ptr<Handle> handle) {
  curl_easy_reset(handle->curl);
  const std::lock_guard guard(mutex_);
  idle_.push_back(std::move(handle));
}

Result<CurlAnswer> CurlConnections::send(const CurlRequest& request) {
  std::unique_ptr<Handle> handle = take();
  CURL* const curl = handle->curl;
  HeaderList headers;
  for (const std::string& line : request.headers) headers.add(line);
  Incoming in{.answer = {}, .most = request.most};
  std::array<char, CURL_ERROR_SIZE> why{};
  describe(curl, request);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.first);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why.data());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &in);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &in);
  const CURLcode code = curl_easy_perform(curl);
  long status = 0;  // NOLINT(google-runtime-int): libcurl's
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  give(std::move(handle));
  if (in.too_long) {
    return Status(Code::kTooLarge, "the answer is longer than the " + std::to_string(request.most) +
                                       " bytes that were asked for");
  }
  if (code != CURLE_OK && status == 0 && refuses_as_it_is(why.data())) {
    return Status(Code::kUnsupported,
                  std::string("libcurl ") + curl_version_info(CURLVERSION_NOW)->version +
                      " signs no name with . or .. as a part: rename the object");
  }
  if (code != CURLE_OK) {
    return Status(Code::kIo, why[0] ? why.data() : curl_easy_strerror(code));
  }
  in.answer.status = static_cast<int>(status);
  return std::move(in.answer);
}

}  // namespace ndtrain::ndp
