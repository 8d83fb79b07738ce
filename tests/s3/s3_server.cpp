#include "tests/s3/s3_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "framework/core/base64.h"
#include "framework/core/hash.h"
#include "tests/s3/sigv4.h"

namespace ndtrain::support {
namespace {

std::string url_decoded(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string url_encoded(const std::string& text) {
  constexpr const char* kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '/' || c == '.' || c == '-') {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::map<std::string, std::string> fields_of(const std::string& query) {
  std::map<std::string, std::string> out;
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const size_t equals = query.find('=', begin);
    out[url_decoded(query.substr(begin, equals - begin))] =
        url_decoded(query.substr(equals + 1, end - equals - 1));
    begin = end + 1;
  }
  return out;
}

std::string etag_of(const std::string& bytes) {
  return "\"" + to_hex(sha256(bytes)).substr(0, 32) + "\"";
}

std::string error_xml(const std::string& code) {
  return "<?xml version=\"1.0\"?><Error><Code>" + code +
         "</Code><Message>as told</Message></Error>";
}

// One request out of `buffer`, which keeps what follows it.
std::optional<S3Call> receive(int connection, std::string& buffer) {
  const auto more = [&] {
    char chunk[65536];
    const ssize_t n = recv(connection, chunk, sizeof chunk, 0);
    if (n > 0) buffer.append(chunk, static_cast<size_t>(n));
    return n > 0;
  };
  size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!more()) return std::nullopt;
  }
  S3Call call;
  const std::string head = buffer.substr(0, end + 2);
  buffer.erase(0, end + 4);
  const size_t first = head.find(' '), second = head.find(' ', first + 1);
  call.method = head.substr(0, first);
  const std::string target = head.substr(first + 1, second - first - 1);
  const size_t mark = std::min(target.find('?'), target.size());
  call.path = target.substr(0, mark);
  call.query = target.substr(std::min(mark + 1, target.size()));
  for (size_t begin = head.find("\r\n") + 2; begin < head.size();) {
    const size_t line_end = head.find("\r\n", begin), colon = head.find(':', begin);
    std::string name = head.substr(begin, colon - begin);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    const size_t value = head.find_first_not_of(' ', colon + 1);
    call.headers[name] = head.substr(value, line_end - value);
    begin = line_end + 2;
  }
  const auto length = call.headers.find("content-length");
  const size_t bytes = length == call.headers.end() ? 0 : std::stoul(length->second);
  while (buffer.size() < bytes) {
    if (!more()) return std::nullopt;
  }
  call.body = buffer.substr(0, bytes);
  buffer.erase(0, bytes);
  return call;
}

}  // namespace

S3Server::S3Server(std::string bucket) : bucket_(std::move(bucket)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const a = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, a, size) != 0 || listen(listener_, 128) != 0 ||
      getsockname(listener_, a, &size) != 0) {
    throw std::runtime_error("no port for the S3 of this test");
  }
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { accept_all(); });
}

S3Server::~S3Server() {
  shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  close(listener_);
  {
    const std::lock_guard guard(mutex_);
    for (const int c : connections_) shutdown(c, SHUT_RDWR);
  }
  for (std::thread& t : threads_) t.join();
  for (const int c : connections_) close(c);
}

void S3Server::accept_all() {
  for (int c = 0; (c = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    const std::lock_guard guard(mutex_);
    connections_.push_back(c);
    threads_.emplace_back([this, c] { talk(c); });
  }
}

void S3Server::talk(int connection) {
  std::string buffer;
  while (std::optional<S3Call> call = receive(connection, buffer)) {
    S3Fault fault;
    {
      const std::lock_guard guard(mutex_);
      calls_.push_back(*call);
      most_at_once_ = std::max(most_at_once_, ++under_way_);
      if (fault_) fault = fault_(*call);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(latency_ms_));
    {
      const std::lock_guard guard(mutex_);
      --under_way_;  // before its client may ask for more
    }
    if (fault.kind == S3Fault::Kind::kCutConnection) break;
    if (fault.kind == S3Fault::Kind::kReplaced) {
      put(url_decoded(call->path.substr(bucket_.size() + 2)), fault.code);
    }
    if (fault.kind == S3Fault::Kind::kDamagedRequest && !call->body.empty()) call->body[0] ^= 1;
    const bool cut = fault.kind == S3Fault::Kind::kCutBody;
    if (fault.kind == S3Fault::Kind::kStatus) {
      send_reply(
          connection, *call,
          {.status = fault.status,
           .body = error_xml(fault.code),
           .headers =
               fault.retry_after.empty() ? "" : "Retry-After: " + fault.retry_after + "\r\n"},
          false);
    } else {
      const Reply reply = answer(*call);
      if (fault.kind == S3Fault::Kind::kLostAnswer) break;
      send_reply(connection, *call, reply, cut);
    }
    if (cut) break;
  }
  shutdown(connection, SHUT_RDWR);
}

void S3Server::send_reply(int connection, const S3Call& call, const Reply& reply, bool cut) {
  const bool head = call.method == "HEAD";
  const bool has_length = reply.headers.find("Content-Length") != std::string::npos;
  std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " as it is\r\n" + reply.headers;
  if (!has_length) text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
  text += "\r\n";
  if (!head) text += cut ? reply.body.substr(0, reply.body.size() / 2) : reply.body;
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

std::string S3Server::why_not_signed(const S3Call& call) const {
  const auto header = [&](const std::string& name) {
    const auto found = call.headers.find(name);
    return found == call.headers.end() ? std::string() : found->second;
  };
  const std::string authorization = header("authorization");
  const auto field = [&](const std::string& name) {
    const size_t begin = authorization.find(name + "=");
    if (begin == std::string::npos) return std::string();
    const size_t from = begin + name.size() + 1;
    return authorization.substr(from, authorization.find_first_of(", ", from) - from);
  };
  SignedParts parts{.method = call.method,
                    .path = call.path,
                    .query = call.query,
                    .headers = {},
                    .payload_hash = header("x-amz-content-sha256"),
                    .time = header("x-amz-date"),
                    .region = kRegion,
                    .service = "s3"};
  if (parts.payload_hash != to_hex(sha256(call.body))) return "XAmzContentSHA256Mismatch";
  if (!field("Credential").starts_with(std::string(kKey) + "/")) return "InvalidAccessKeyId";
  const std::string names = field("SignedHeaders") + ";";
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = names.find(';', begin);
    const std::string name = names.substr(begin, end - begin);
    if (!call.headers.contains(name)) return "SignatureDoesNotMatch";
    parts.headers[name] = header(name);
    begin = end + 1;
  }
  for (const char* needed : {"host", "x-amz-date", "x-amz-content-sha256"}) {
    if (!parts.headers.contains(needed)) return "AccessDenied";
  }
  return field("Signature") == sigv4(parts, kSecret) ? "" : "SignatureDoesNotMatch";
}

S3Server::Reply S3Server::answer(const S3Call& call) {
  const std::lock_guard guard(mutex_);
  if (const std::string why = why_not_signed(call); !why.empty()) {
    return {.status = 403, .body = error_xml(why)};
  }
  const std::string root = "/" + bucket_ + "/";
  if (!there_ || !call.path.starts_with(root)) {
    return {.status = 404, .body = error_xml("NoSuchBucket")};
  }
  const std::string key = url_decoded(call.path.substr(root.size()));
  if (key.empty()) return list(call);
  if (call.method == "PUT") {
    if (const Reply refusal = refusal_of(call, key); refusal.status != 200) return refusal;
    const std::string version = put_now(key, call.body);
    return {.headers = "ETag: " + etag_of(call.body) + "\r\n" + version};
  }
  if (!fields_of(call.query)["versionId"].empty()) return answer_version(call, key);
  const auto found = objects_.find(key);
  if (call.method == "DELETE") {
    if (found != objects_.end()) objects_.erase(found);
    if (keeps_versions_) versions_[key].push_back({"v" + std::to_string(++ids_), std::nullopt});
    return {.status = 204, .headers = version_header(key)};
  }
  if (found == objects_.end()) {
    const std::string version = version_header(key);
    return {.status = 404,
            .body = error_xml("NoSuchKey"),
            .headers = version.empty() ? "" : version + "x-amz-delete-marker: true\r\n"};
  }
  Reply reply = get(call, found->second);
  reply.headers += version_header(key);
  return reply;
}

S3Server::Reply S3Server::answer_version(const S3Call& call, const std::string& key) {
  const std::string id = fields_of(call.query)["versionId"];
  for (const Version& v : versions_[key]) {
    if (v.id != id || call.method != "GET") continue;
    if (!v.bytes) return {.status = 405, .body = error_xml("MethodNotAllowed")};
    Reply reply = get(call, *v.bytes);
    reply.headers += "x-amz-version-id: " + id + "\r\n";
    return reply;
  }
  return {.status = 404, .body = error_xml("NoSuchVersion")};
}

std::string S3Server::version_header(const std::string& key) const {
  const auto found = versions_.find(key);
  if (found == versions_.end()) return "";
  return "x-amz-version-id: " + found->second.back().id + "\r\n";
}

std::string S3Server::put_now(const std::string& key, std::string bytes) {
  if (keeps_versions_) versions_[key].push_back({"v" + std::to_string(++ids_), bytes});
  objects_[key] = std::move(bytes);
  return version_header(key);
}

S3Server::Reply S3Server::refusal_of(const S3Call& put, const std::string& key) const {
  const auto checksum = put.headers.find("x-amz-checksum-sha256");
  const Digest digest = sha256(put.body);
  const std::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
  if (checksum != put.headers.end() && checksum->second != to_base64(bytes)) {
    return {.status = 400, .body = error_xml("BadDigest")};
  }
  if (!put.headers.contains("if-none-match")) return {};
  if (!knows_conditions_) return {.status = 501, .body = error_xml("NotImplemented")};
  if (objects_.contains(key)) return {.status = 412, .body = error_xml("PreconditionFailed")};
  return {};
}

S3Server::Reply S3Server::get(const S3Call& call, const std::string& bytes) {
  Reply reply{.headers = "ETag: " + etag_of(bytes) +
                         "\r\nLast-Modified: Sun, 29 Nov 2026 01:02:03 GMT\r\n"};
  if (call.method == "HEAD") {
    reply.headers += "Content-Length: " + std::to_string(bytes.size()) + "\r\n";
    return reply;
  }
  const auto match = call.headers.find("if-match");
  if (knows_matches_ && match != call.headers.end() && match->second != etag_of(bytes)) {
    return {.status = 412, .body = error_xml("PreconditionFailed")};
  }
  const auto range = call.headers.find("range");
  if (range == call.headers.end()) {
    reply.body = bytes;
    return reply;
  }
  const size_t dash = range->second.find('-');
  const size_t from = std::stoul(range->second.substr(6, dash - 6));
  const size_t to = std::min(std::stoul(range->second.substr(dash + 1)) + 1, bytes.size());
  if (from >= bytes.size()) return {.status = 416, .body = error_xml("InvalidRange")};
  reply.status = 206;
  reply.body = bytes.substr(from, to - from);
  reply.headers += "Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(to - 1) +
                   "/" + std::to_string(bytes.size()) + "\r\n";
  return reply;
}

S3Server::Reply S3Server::list(const S3Call& call) {
  auto fields = fields_of(call.query);
  const std::string prefix = fields["prefix"], after = fields["continuation-token"];
  const size_t most = std::min<size_t>(std::stoul(fields["max-keys"]), 1000);
  std::string contents, last;
  std::set<std::string> prefixes;
  size_t n = 0;
  bool more = false;
  for (const auto& [key, bytes] : objects_) {
    if (!key.starts_with(prefix)) continue;
    const size_t slash = key.find('/', prefix.size());
    const std::string entry = slash == std::string::npos ? key : key.substr(0, slash + 1);
    if (prefixes.contains(entry) || (!after.empty() && entry <= after)) continue;
    more = n == most;
    if (more) break;
    ++n;
    last = entry;
    if (slash != std::string::npos) {
      prefixes.insert(entry);
      continue;
    }
    contents += "<Contents><Key>" + url_encoded(key) +
                "</Key><LastModified>2026-11-29T01:02:03.000Z</LastModified><ETag>&quot;" +
                to_hex(sha256(bytes)).substr(0, 32) + "&quot;</ETag><Size>" +
                std::to_string(bytes.size()) + "</Size></Contents>";
  }
  std::string xml =
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<EncodingType>url</EncodingType>" +
      contents;
  for (const std::string& p : prefixes) {
    xml += "<CommonPrefixes><Prefix>" + url_encoded(p) + "</Prefix></CommonPrefixes>";
  }
  xml += more ? "<IsTruncated>true</IsTruncated><NextContinuationToken>" + last +
                    "</NextContinuationToken>"
              : "<IsTruncated>false</IsTruncated>";
  return {.body = xml + "</ListBucketResult>"};
}

void S3Server::put(const std::string& key, std::string bytes) {
  const std::lock_guard guard(mutex_);
  (void)put_now(key, std::move(bytes));
}

std::map<std::string, std::string> S3Server::objects() const {
  const std::lock_guard guard(mutex_);
  return objects_;
}

void S3Server::drop_bucket() {
  const std::lock_guard guard(mutex_);
  there_ = false;
}

void S3Server::bring_bucket_back() {
  const std::lock_guard guard(mutex_);
  there_ = true;
}

void S3Server::set_fault(std::function<S3Fault(const S3Call&)> fault) {
  const std::lock_guard guard(mutex_);
  fault_ = std::move(fault);
}

std::vector<S3Call> S3Server::calls() const {
  const std::lock_guard guard(mutex_);
  return calls_;
}

int64_t S3Server::count(const std::string& method, const std::string& path_begin) const {
  const std::lock_guard guard(mutex_);
  return std::ranges::count_if(calls_, [&](const S3Call& c) {
    return c.method == method && c.path.starts_with(path_begin) && c.query.empty();
  });
}

void S3Server::forget_calls() {
  const std::lock_guard guard(mutex_);
  calls_.clear();
  most_at_once_ = under_way_;
}

int S3Server::most_at_once() const {
  const std::lock_guard guard(mutex_);
  return most_at_once_;
}

}  // namespace ndtrain::support
