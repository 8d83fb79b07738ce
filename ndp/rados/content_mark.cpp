#include "ndp/rados/content_mark.h"

#include <charconv>

namespace ndtrain::ndp {
namespace {

constexpr int64_t kSettledAfter = 5;  // seconds

}  // namespace

std::string content_mark(const ObjectFacts& object) {
  return std::to_string(object.content) + " " + std::to_string(object.mtime_ns / kObjectSecond);
}

uint64_t content_version(const ObjectFacts& object, const ObjectAttributes& attributes) {
  const auto mark = attributes.find(kContentMark);
  if (mark == attributes.end()) return object.version;
  const char* const end = mark->second.data() + mark->second.size();
  uint64_t version = 0;
  int64_t seconds = 0;
  const auto first = std::from_chars(mark->second.data(), end, version);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ' ') return object.version;
  const auto second = std::from_chars(first.ptr + 1, end, seconds);
  const bool whole = second.ec == std::errc() && second.ptr == end;
  const bool same = whole && seconds == object.mtime_ns / kObjectSecond && version < object.version;
  return same ? version : object.version;
}

bool is_settled(const ObjectFacts& object, int64_t now) {
  return now - object.mtime_ns / kObjectSecond >= kSettledAfter;
}

}  // namespace ndtrain::ndp
