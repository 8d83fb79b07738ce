#include "ndp/http/http_message.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>
#include <limits>

#include "ndp/http/http_limits.h"

namespace ndtrain::ndp {
namespace {

namespace http = boost::beast::http;

constexpr auto kHead = static_cast<uint64_t>(limits::kHttpHead);
// A chunk's own head, and what may follow the last one.
constexpr size_t kChunkHead = size_t{16} << 10;
constexpr std::string_view kEnd = "\r\n\r\n";
// What a browser may do with an answer that says nothing else: nothing but show it by itself.
const std::pair<std::string, std::string> kOfEachAnswer[] = {
    {"Cache-Control", "no-store"},
    {"Content-Security-Policy",
     "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"}};

bool same(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string text_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

boost::asio::const_buffer buffer_of(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

std::string field_line(const std::string& name, const std::string& value) {
  const bool ends = (name + value).find_first_of(std::string_view("\r\n\0", 3)) != value.npos;
  return ends ? "" : name + ": " + value + "\r\n";
}

// Beast checks Content-Length by itself, and takes it twice when both say the same; what is refused
// here is refused with the reason, by every release of it.
std::vector<std::string> lengths_in(std::string_view head) {
  constexpr std::string_view kLength = "content-length:";
  std::vector<std::string> found;
  for (size_t at = head.find("\r\n"); at + 2 < head.size(); at = head.find("\r\n", at + 2)) {
    std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    if (line.size() < kLength.size() || !same(line.substr(0, kLength.size()), kLength)) continue;
    line.remove_prefix(kLength.size());
    const size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t");
    found.emplace_back(first == line.npos ? "" : line.substr(first, last - first + 1));
  }
  return found;
}

}  // namespace

std::string_view HttpHead::field(std::string_view name) const {
  const auto it = std::ranges::find_if(fields, [&](const auto& f) { return same(f.first, name); });
  return it == fields.end() ? std::string_view() : it->second;
}

size_t HttpHead::count(std::string_view name) const {
  return static_cast<size_t>(
      std::ranges::count_if(fields, [&](const auto& f) { return same(f.first, name); }));
}

struct HttpRequestReader::Parser {
  http::request_parser<http::string_body> parser;
};

HttpRequestReader::HttpRequestReader() = default;
HttpRequestReader::~HttpRequestReader() = default;

HttpRequestReader::Got HttpRequestReader::refuse(int status, const std::string& why) {
  refusal_ = http_error(status, why);
  return Got::kRefused;
}

HttpRequestReader::Got HttpRequestReader::head(std::string& bytes) {
  head_ = {};
  while (bytes.starts_with("\r\n")) bytes.erase(0, 2);  // behind the last body
  const size_t end = bytes.find(kEnd);
  if (std::min(end, bytes.size()) + (end == bytes.npos ? 0 : kEnd.size()) > kHead) {
    return refuse(400, "the head of a request has at most " + std::to_string(kHead) + " bytes");
  }
  if (end == bytes.npos) return Got::kPart;
  const std::string_view text = std::string_view(bytes).substr(0, end + kEnd.size());

  // Beast would join them (RFC 9112, 5.2).
  if (text.find("\r\n ") != text.npos || text.find("\r\n\t") != text.npos) {
    return refuse(400, "a field of the head goes on in another line");
  }
  const std::vector<std::string> lengths = lengths_in(text);
  if (lengths.size() > 1) return refuse(400, "Content-Length is said more than once");
  if (!lengths.empty()) {
    if (lengths[0].empty() || lengths[0].find_first_not_of("0123456789") != std::string::npos) {
      return refuse(400, "Content-Length: " + lengths[0] + " is no number");
    }
    head_.length = lengths[0];
  }
  parser_ = std::make_unique<Parser>();
  auto& parser = parser_->parser;
  parser.header_limit(static_cast<std::uint32_t>(kHead + 1));
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  boost::system::error_code error;
  // A length that is too large for the parser is too large for every route.
  if (head_.length && head_.length->size() > 18) return refuse(413, "the body is too large");
  parser.put(buffer_of(text), error);
  const bool both = !lengths.empty() && error == http::error::bad_transfer_encoding;
  if (both || (!lengths.empty() && error == http::error::bad_content_length)) {
    return refuse(400, "Content-Length and Transfer-Encoding do not go together");
  }
  if (error || !parser.is_header_done()) {
    return refuse(400, "this is no request that the server understands");
  }
  bytes.erase(0, end + kEnd.size());
  const auto& message = parser.get();
  head_.method = text_of(message.method_string());
  head_.target = text_of(message.target());
  for (const auto& f : message) {
    head_.fields.emplace_back(text_of(f.name_string()), text_of(f.value()));
  }
  head_.old = message.version() < 11;
  head_.keep_alive = parser.keep_alive();
  head_.chunked = parser.chunked();
  if (const std::string why = objection(); !why.empty()) return refuse(400, why);
  return Got::kWhole;
}

std::string HttpRequestReader::objection() const {
  if (head_.count("Transfer-Encoding") > 0) {
    if (head_.old) return "Transfer-Encoding is of HTTP/1.1, not of 1.0";
    if (head_.length) return "Content-Length and Transfer-Encoding do not go together";
    if (head_.count("Transfer-Encoding") > 1 ||
        !same(head_.field("Transfer-Encoding"), "chunked")) {
      return "the only Transfer-Encoding taken is chunked";
    }
  }
  return head_.count("Host") > 1 ? "Host is said more than once" : "";
}

HttpRequestReader::Got HttpRequestReader::body(std::string& bytes, uint64_t most) {
  auto& parser = parser_->parser;
  if (parser.is_done()) return Got::kWhole;
  if (!parser.eager()) {
    parser.eager(true);
    parser.body_limit(most);
  }
  if (bytes.empty()) return Got::kPart;
  boost::system::error_code error;
  bytes.erase(0, parser.put(buffer_of(bytes), error));
  if (error == http::error::body_limit) return refuse(413, "");
  if (error == http::error::need_more && bytes.size() <= kChunkHead) return Got::kPart;
  if (error) return refuse(400, "the body is not in the form it should be");
  return parser.is_done() ? Got::kWhole : Got::kPart;
}

std::string_view HttpRequestReader::body_so_far() const { return parser_->parser.get().body(); }

std::string HttpRequestReader::take_body() { return std::move(parser_->parser.get().body()); }

struct HttpAnswerReader::Parser {
  http::response_parser<http::string_body> parser;
};

HttpAnswerReader::HttpAnswerReader(uint64_t most) : parser_(std::make_unique<Parser>()) {
  parser_->parser.header_limit(static_cast<std::uint32_t>(kHead));
  parser_->parser.body_limit(most);
  parser_->parser.eager(true);
}
HttpAnswerReader::~HttpAnswerReader() = default;

HttpAnswerReader::Got HttpAnswerReader::feed(std::string& bytes) {
  boost::system::error_code error;
  bytes.erase(0, parser_->parser.put(buffer_of(bytes), error));
  if (error == http::error::body_limit) return Got::kTooLarge;
  if (error && error != http::error::need_more) return Got::kNoHttp;
  return parser_->parser.is_done() ? Got::kWhole : Got::kPart;
}

HttpAnswerReader::Got HttpAnswerReader::end() {
  if (!parser_->parser.got_some()) return Got::kPart;
  boost::system::error_code error;
  parser_->parser.put_eof(error);
  return error ? Got::kPart : Got::kWhole;
}

HttpResponse HttpAnswerReader::take() {
  auto& message = parser_->parser.get();
  HttpResponse answer{.status = static_cast<int>(message.result_int()),
                      .body = std::move(message.body()),
                      .type = text_of(message[http::field::content_type])};
  for (const auto& f : message) {
    answer.headers.emplace(text_of(f.name_string()), text_of(f.value()));
  }
  return answer;
}

std::string answer_head(const HttpResponse& answer, std::optional<uint64_t> length, bool close,
                        bool old) {
  std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " " +
                     text_of(http::obsolete_reason(static_cast<http::status>(answer.status))) +
                     "\r\n";
  text += field_line("Content-Type", answer.type);
  if (length) text += field_line("Content-Length", std::to_string(*length));
  for (const auto& [name, value] : answer.headers) text += field_line(name, value);
  for (const auto& [name, value] : kOfEachAnswer) {
    if (!answer.headers.contains(name)) text += field_line(name, value);
  }
  if (close) text += "Connection: close\r\n";
  if (!close && old) text += "Connection: keep-alive\r\n";
  return text + "\r\n";
}

std::string request_head(const std::string& method, const std::string& target,
                         const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string text = method + " " + target + " HTTP/1.1\r\n";
  for (const auto& [name, value] : fields) text += field_line(name, value);
  return text + "\r\n";
}

}  // namespace ndtrain::ndp
