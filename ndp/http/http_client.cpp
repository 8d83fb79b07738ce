#include "ndp/http/http_client.h"

#include <fmt/format.h>

#include <array>

#include "framework/core/limits.h"
#include "ndp/http/http_message.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kHttp = "http://", kHttps = "https://";

std::string without_scheme(const std::string& address) {
  if (address.starts_with(kHttp)) return address.substr(kHttp.size());
  return address.starts_with(kHttps) ? address.substr(kHttps.size()) : address;
}

// What cannot stand in a request's first line is encoded; what is encoded stays.
std::string encoded(const std::string& path) {
  std::string text;
  for (const unsigned char c : path) {
    const bool plain =
        c > ' ' && c < 0x7f &&
        std::string_view("\"<>\\^`{|}").find(static_cast<char>(c)) == std::string_view::npos;
    text += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return text;
}

using Got = HttpAnswerReader::Got;

// What the stream gives for an answer; `trouble` is why it gives no more.
Got read_answer(Stream& stream, std::chrono::milliseconds patience, HttpAnswerReader& reader,
                Status& trouble) {
  std::array<std::byte, 65536> buffer;
  std::string bytes;
  for (Got got = Got::kPart; got == Got::kPart;) {
    const Result<size_t> n = stream.read(buffer, patience);
    if (!n.ok()) {
      trouble = n.status();
      return Got::kPart;
    }
    if (*n == 0) return reader.end();
    bytes.append(reinterpret_cast<const char*>(buffer.data()), *n);
    if (got = reader.feed(bytes); got != Got::kPart) return got;
  }
  return Got::kPart;
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
  std::vector<std::pair<std::string, std::string>> fields = {
      {"Host", address_.starts_with("unix:") ? "localhost" : address_}};
  if (!type.empty()) fields.emplace_back("Content-Type", type);
  if (!type.empty() || !body.empty()) {
    fields.emplace_back("Content-Length", std::to_string(body.size()));
  }
  if (!trust_.token.empty()) fields.emplace_back("Authorization", "Bearer " + trust_.token);
  fields.emplace_back("Connection", "close");
  // An answer may come before all was sent, so a write that fails is not the end of it.
  const std::string head = request_head(method, encoded(path), fields);
  Status unsent = (*stream)->write(std::as_bytes(std::span(head)));
  if (unsent.ok()) unsent = (*stream)->write(std::as_bytes(std::span(body)));

  HttpAnswerReader reader(static_cast<uint64_t>(limits::kHttpAnswer));
  Status trouble;
  const Got got = read_answer(**stream, patience_, reader, trouble);
  if (got == Got::kWhole) return reader.take();
  const std::string what = method + " " + path;
  if (got == Got::kTooLarge) {
    return Status(Code::kTooLarge,
                  fmt::format("{}: the answer to {} has more than {} bytes, the most that is read",
                              address_, what, limits::kHttpAnswer));
  }
  if (trouble.code() == Code::kCancelled) {
    return Status(Code::kCancelled, fmt::format("{}: no answer to {} within {} s", address_, what,
                                                static_cast<double>(patience_.count()) / 1000));
  }
  if (!unsent.ok()) return unsent;
  if (!trouble.ok()) return trouble;
  return Status(Code::kIo,
                fmt::format("{}: {} {}", address_,
                            got == Got::kPart ? "closed the connection before it answered"
                                              : "this is no HTTP that comes in answer to",
                            what));
}

std::string url_encoded(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace ndtrain::ndp
