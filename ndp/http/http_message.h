// HTTP/1.1 on the wire: what a server reads, and what a client does. Boost.Beast stays in the
// source.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ndp/http/http_server.h"

namespace ndtrain::ndp {

struct HttpHead {
  std::string method, target;
  std::vector<std::pair<std::string, std::string>> fields;
  bool keep_alive = false;            // the client may send more after the answer
  bool old = false;                   // HTTP/1.0
  std::optional<std::string> length;  // Content-Length, as it was said
  bool chunked = false;               // Transfer-Encoding: chunked

  // The first of this name, in whatever case; "" without one.
  std::string_view field(std::string_view name) const;
  size_t count(std::string_view name) const;
  bool has_body() const { return chunked || (length && *length != "0"); }
};

// One request after another. Each call takes from the front of `bytes` what it has used.
class HttpRequestReader {
 public:
  enum class Got { kPart, kWhole, kRefused };

  HttpRequestReader();
  ~HttpRequestReader();

  // Up to and with the head's end. Refused: refusal() says what is no request, after which nothing
  // more of the connection can be understood.
  Got head(std::string& bytes);
  // After head(): the body, of at most `most` bytes.
  Got body(std::string& bytes, uint64_t most);
  const HttpHead& last() const { return head_; }
  const HttpResponse& refusal() const { return refusal_; }
  std::string_view body_so_far() const;
  std::string take_body();

 private:
  struct Parser;
  Got refuse(int status, const std::string& why);
  std::string objection() const;

  std::unique_ptr<Parser> parser_;
  HttpHead head_;
  HttpResponse refusal_;
};

// One answer.
class HttpAnswerReader {
 public:
  enum class Got { kPart, kWhole, kNoHttp, kTooLarge };

  explicit HttpAnswerReader(uint64_t most);  // bytes of its body
  ~HttpAnswerReader();
  Got feed(std::string& bytes);
  Got end();  // the connection was closed: kPart when it should not have been
  HttpResponse take();

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// The head of an answer. `length` is absent for a body that the connection's end ends.
std::string answer_head(const HttpResponse& answer, std::optional<uint64_t> length, bool close,
                        bool old);
// Fields whose value would end the line are left out.
std::string request_head(const std::string& method, const std::string& target,
                         const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace ndtrain::ndp
