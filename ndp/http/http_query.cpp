#include "ndp/http/http_query.h"

#include <charconv>

#include "framework/core/text.h"

namespace ndtrain::ndp {

std::string query_text(const HttpRequest& request, const char* name, std::string_view otherwise) {
  const auto given = request.query.find(name);
  return given == request.query.end() || given->second.empty() ? std::string(otherwise)
                                                               : given->second;
}

Result<int64_t> query_count(const HttpRequest& request, const char* name, int64_t usual,
                            int64_t most) {
  const auto given = request.query.find(name);
  if (given == request.query.end()) return usual;
  const std::string& text = given->second;
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error == std::errc() && end == text.data() + text.size() && n >= 1 && n <= most) return n;
  return Status(Code::kUnsupported, std::string(name) + "=" + printable(text, 64) + ": 1 to " +
                                        std::to_string(most) + " may be asked for");
}

}  // namespace ndtrain::ndp
