#include <charconv>
#include <chrono>
#include <ctime>
#include <pugixml.hpp>

#include "framework/core/text.h"
#include "ndp/s3/http_date.h"
#include "ndp/s3/s3_client.h"

namespace ndtrain::ndp {
namespace {

// Of encoding-type=url: by it a key may hold what XML cannot.
bool decode_url(std::string_view text, std::string& to) {
  to.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      to += ' ';
    } else if (text[i] != '%') {
      to += text[i];
    } else {
      unsigned value = 0;
      if (i + 2 >= text.size()) return false;
      const char* const begin = text.data() + i + 1;
      const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
      if (error != std::errc() || end != begin + 2) return false;
      to += static_cast<char>(value);
      i += 2;
    }
  }
  return true;
}

// "2026-11-29T01:02:03.456Z"; 0 for anything else, since no more than a change is seen by it.
int64_t nanoseconds_of(const char* text) {
  std::tm t{};
  const char* rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &t);
  if (!rest) return 0;
  int64_t fraction = 0, unit = 1'000'000'000;
  if (*rest == '.') {
    for (++rest; *rest >= '0' && *rest <= '9' && unit > 1; ++rest) {
      unit /= 10;
      fraction += (*rest - '0') * unit;
    }
  }
  return to_nanoseconds(timegm(&t)) + fraction;
}

Status broken(const std::string& what) {
  return {Code::kCorrupt, "the answer is no listing of S3: " + what};
}

}  // namespace

Result<S3Page> parse_s3_page(std::string_view xml) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) return broken(parsed.description());
  const pugi::xml_node root = document.child("ListBucketResult");
  if (!root) return broken("<ListBucketResult> is missing");
  const bool encoded = std::string_view(root.child_value("EncodingType")) == "url";
  const auto key_of = [&](const char* text, std::string& to) {
    if (encoded) return decode_url(text, to);
    to = text;
    return true;
  };
  S3Page page;
  for (const pugi::xml_node& node : root.children("Contents")) {
    S3Object object{.key = {},
                    .mtime_ns = nanoseconds_of(node.child_value("LastModified")),
                    .etag = node.child_value("ETag")};
    const std::string_view size = node.child_value("Size");
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), object.size);
    if (!key_of(node.child_value("Key"), object.key) || object.key.empty() ||
        error != std::errc() || end != size.data() + size.size() || object.size < 0) {
      return broken("key '" + printable(node.child_value("Key"), 256) + "' of size '" +
                    printable(size, 32) + "'");
    }
    page.objects.push_back(std::move(object));
  }
  for (const pugi::xml_node& node : root.children("CommonPrefixes")) {
    std::string prefix;
    if (!key_of(node.child_value("Prefix"), prefix) || !prefix.ends_with('/')) {
      return broken("prefix '" + printable(node.child_value("Prefix"), 256) + "'");
    }
    page.prefixes.push_back(std::move(prefix));
  }
  if (std::string_view(root.child_value("IsTruncated")) == "true") {
    page.next = root.child_value("NextContinuationToken");
    if (page.next.empty()) return broken("it goes on without a <NextContinuationToken>");
  }
  return page;
}

S3Failure parse_s3_failure(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size())) return {};
  const pugi::xml_node error = document.child("Error");
  return {.code = printable(error.child_value("Code"), 128),
          .message = printable(error.child_value("Message"), 512)};
}

}  // namespace ndtrain::ndp
