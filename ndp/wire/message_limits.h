// The range of every field of every message between the roles, in one table, and the one place
// where messages are held to it: what a peer sends is admitted before anything else looks at it.
// A field without a row is a failing test (tests/wire/message_limits_test.cpp).
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/limits.h"
#include "framework/core/status.h"

namespace ndtrain::wire {

inline constexpr int64_t kMostBytes = limits::kMessage;       // of any field
inline constexpr int64_t kMostItems = limits::kMessage / 32;  // one for each digest of a message
inline constexpr int64_t kMostPhotos = int64_t{1} << 26;      // of one store
inline constexpr int64_t kClassNameBytes = 256;               // of what photos show
inline constexpr int64_t kSetNameBytes = 256;                 // of a collection or a task
inline constexpr int64_t kMostTasks = 64;                     // with versions in force
inline constexpr int64_t kMostViews = 32;                     // of a photo, each a file of a store
inline constexpr int64_t kUnreadableFiles = 1000;             // that an inventory names
inline constexpr int64_t kProbeBytes = int64_t{3} << 20;      // of one probe of a link
inline constexpr int64_t kMostWindow = int64_t{64} << 20;     // bytes of rows on their way
inline constexpr int64_t kTextBytes = int64_t{16} << 10;      // of what people read
inline constexpr int64_t kLatestTime = 253'402'300'799;       // the last second of the year 9999
inline constexpr int64_t kLargestNumber = (int64_t{1} << 53) - 1;  // that JSON keeps as it is

enum class FieldKind {
  kNumber,   // from least to most
  kReal,     // finite, from least to most
  kAny,      // drawn, computed, or one of two: every value is one
  kEnum,     // a value that wire.proto names
  kBytes,    // least to most of them
  kDigest,   // 32 bytes; with least 0 none too
  kDigests,  // 32 bytes each, at most `most` in all
  kName,     // least to most bytes of UTF-8 without control characters
  kPath,     // the same, below a directory: no part is empty, "." or ".."
  kText,     // at most `most` bytes; control characters are written out on arrival
  kMessages  // whose fields have rows of their own
};

struct FieldRange {
  std::string_view field;  // "Hello.store"
  FieldKind kind = FieldKind::kAny;
  int64_t least = 0, most = 0;
  int64_t items = 1;  // of a repeated field, at most
};

std::span<const FieldRange> field_ranges();

// Why a message is none that a peer may send: the field, what it has and what it may have.
Status check_message(const google::protobuf::Message& message);

// As check_message(), and makes what people will read printable.
Status admit(google::protobuf::Message& message);

// A reason, say, as it may be sent.
std::string as_text(std::string_view text);

bool is_class_name(std::string_view name);
bool is_set_name(std::string_view name);  // of a collection or a task
bool is_photo_path(std::string_view path);

}  // namespace ndtrain::wire
