#include "ndp/wire/message_limits.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/core/text.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::wire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Kind = FieldKind;

constexpr int64_t kDigestBytes = sizeof(Digest);
constexpr int64_t kNoEnd = INT64_MAX;
constexpr int64_t kModel = limits::kModelFile;
constexpr int64_t kSeconds = 1'000'000'000;  // that something took

constexpr FieldRange kRanges[] = {
    {"FromStore.term", Kind::kNumber, 0, kNoEnd},
    {"FromStore.answers", Kind::kNumber, 0, kLargestNumber},
    {"ToStore.term", Kind::kNumber, 0, kNoEnd},

    {"JoinTraining.training", Kind::kNumber, 1, kLargestNumber},
    {"JoinTraining.job", Kind::kNumber, 1, kLargestNumber},
    {"JoinTraining.rank", Kind::kNumber, 1, limits::kRanks - 1},
    {"JoinTraining.ranks", Kind::kNumber, 2, limits::kRanks},
    {"JoinTraining.address", Kind::kName, 1, 300},
    {"LeftTraining.training", Kind::kNumber, 1, kLargestNumber},
    {"LeftTraining.failure", Kind::kText, 0, kTextBytes},

    {"Hello.protocols", Kind::kNumber, 1, 65'535, 64},
    {"Hello.store", Kind::kName, 1, 64},
    {"Hello.incarnation", Kind::kAny},
    {"Hello.newest_term", Kind::kNumber, 0, kNoEnd},
    {"Hello.tuner", Kind::kBytes, 0, 16},
    {"Hello.version", Kind::kName, 0, 64},
    {"Hello.numerics", Kind::kName, 0, 4096},
    {"Hello.photos", Kind::kNumber, 0, kMostPhotos},
    {"Hello.version_in_force", Kind::kNumber, 0, kLargestNumber},
    {"Hello.deletions", Kind::kNumber, 0, kLargestNumber},
    {"Hello.deletions_mark", Kind::kAny},
    {"Hello.takes_tokens", Kind::kAny},
    {"Hello.takes_task_tokens", Kind::kAny},
    {"Hello.newest_start", Kind::kAny},
    {"Hello.takes_tickets", Kind::kAny},
    {"Hello.trash", Kind::kNumber, 0, kLargestNumber},
    {"Hello.tasks", Kind::kMessages, 0, 0, kMostTasks},
    {"Hello.collection", Kind::kName, 0, kSetNameBytes},
    {"Hello.takes_probes", Kind::kAny},
    {"Hello.makes_views", Kind::kAny},
    {"Hello.gives_photos", Kind::kAny},
    {"Hello.tells_hashes", Kind::kAny},
    {"Hello.site", Kind::kName, 0, 64},

    {"Probe.number", Kind::kNumber, 1, kLargestNumber},
    {"Probe.payload", Kind::kBytes, 0, kProbeBytes},
    {"Probe.answer_bytes", Kind::kNumber, 0, kProbeBytes},

    {"Welcome.protocol", Kind::kNumber, 1, 65'535},
    {"Welcome.tuner", Kind::kBytes, 0, 16},
    {"Welcome.heartbeat_ms", Kind::kNumber, 1, 3'600'000},
    {"Welcome.window", Kind::kNumber, 1, kMostWindow},
    {"Welcome.start", Kind::kAny},
    {"Welcome.relays_photos", Kind::kAny},

    {"Refusal.reason", Kind::kEnum},
    {"Refusal.text", Kind::kText, 0, kTextBytes},

    {"Job.job", Kind::kNumber, 0, kLargestNumber},
    {"Job.rows", Kind::kEnum},
    {"Job.extractor", Kind::kDigest, 0, kDigestBytes},
    {"Job.head", Kind::kDigest, 0, kDigestBytes},
    {"Job.top_k", Kind::kNumber, 0, 1000},
    {"Job.preprocessing", Kind::kMessages, 0, 0, 64},
    {"Job.PreprocessingEntry.key", Kind::kName, 1, 64},
    {"Job.PreprocessingEntry.value", Kind::kName, 0, 4096},
    {"Job.with_paths", Kind::kAny},
    {"Job.deterministic", Kind::kAny},
    {"Job.serial", Kind::kNumber, 0, kLargestNumber},
    {"Job.sample", Kind::kBytes, 1, int64_t{1} << 20, 64},
    {"Job.with_gain", Kind::kAny},
    {"Job.with_hashes", Kind::kAny},
    {"Job.Views.changes", Kind::kName, 1, 256},
    {"Job.Views.seed", Kind::kAny},
    {"Job.Views.count", Kind::kNumber, 1, kMostViews},

    {"Inventory.job", Kind::kNumber, 0, kLargestNumber},
    {"Inventory.digests", Kind::kDigests, 0, kMostBytes},
    {"Inventory.labels", Kind::kNumber, 0, limits::kClasses, kMostItems},
    {"Inventory.names", Kind::kName, 1, kClassNameBytes, kMostItems},
    {"Inventory.sources", Kind::kBytes, 0, kMostItems},
    {"Inventory.last", Kind::kAny},
    {"Inventory.photo_bytes", Kind::kNumber, 0, kNoEnd},
    {"Inventory.paths", Kind::kPath, 1, limits::kPathBytes, kMostItems},
    {"Inventory.unreadable", Kind::kNumber, 0, kLargestNumber},
    {"Inventory.sample", Kind::kBytes, 0, kMostBytes},
    {"Inventory.sample_checksum", Kind::kAny},
    {"Inventory.bf16_gain", Kind::kReal, 0, 1'000'000},
    {"Inventory.survey_seconds", Kind::kReal, 0, kSeconds},
    {"Inventory.unreadable_files", Kind::kMessages, 0, 0, kUnreadableFiles},
    {"Inventory.hashes", Kind::kBytes, 0, kMostBytes},
    {"Inventory.hashed", Kind::kBytes, 0, kMostItems},

    {"Wanted.job", Kind::kNumber, 0, kLargestNumber},
    {"Wanted.run", Kind::kNumber, 0, 1000},
    {"Wanted.numbers", Kind::kBytes, 0, kMostBytes},
    {"Wanted.places", Kind::kBytes, 0, kMostBytes},

    {"Rows.job", Kind::kNumber, 0, kLargestNumber},
    {"Rows.run", Kind::kNumber, 0, 1000},
    {"Rows.chunk", Kind::kNumber, 0, kLargestNumber},
    {"Rows.numbers", Kind::kBytes, 0, kMostBytes},
    {"Rows.unreadable", Kind::kMessages, 0, 0, kMostItems},
    {"Rows.rows", Kind::kBytes, 0, kMostBytes},
    {"Rows.checksum", Kind::kAny},
    {"Rows.lengths", Kind::kNumber, 0, limits::kPhotoFile, kMostItems},

    {"Unreadable.number", Kind::kNumber, 0, kLargestNumber},
    {"Unreadable.path", Kind::kText, 0, kTextBytes},
    {"Unreadable.reason", Kind::kText, 0, kTextBytes},

    {"RunDone.job", Kind::kNumber, 0, kLargestNumber},
    {"RunDone.run", Kind::kNumber, 0, 1000},
    {"RunDone.photos", Kind::kNumber, 0, kLargestNumber},
    {"RunDone.unreadable", Kind::kNumber, 0, kLargestNumber},
    {"RunDone.stages", Kind::kMessages, 0, 0, 64},
    {"RunDone.seconds", Kind::kReal, 0, kSeconds},
    {"RunDone.joules", Kind::kReal, 0, 1'000'000'000'000},
    {"RunDone.made_from", Kind::kMessages, 0, 0, 64},
    {"RunDone.MadeFromEntry.key", Kind::kName, 1, 64},
    {"RunDone.MadeFromEntry.value", Kind::kNumber, 0, kLargestNumber},

    {"Stage.name", Kind::kName, 1, 64},
    {"Stage.seconds", Kind::kReal, 0, kSeconds},

    {"Ack.job", Kind::kNumber, 0, kLargestNumber},
    {"Ack.run", Kind::kNumber, 0, 1000},
    {"Ack.chunk", Kind::kNumber, 0, kLargestNumber},

    {"ModelWanted.sha256", Kind::kDigest, kDigestBytes, kDigestBytes},
    {"ModelWanted.offset", Kind::kNumber, 0, kModel},
    {"ModelWanted.held", Kind::kDigest, kDigestBytes, kDigestBytes, 256},
    {"ModelWanted.failure", Kind::kText, 0, kTextBytes},

    {"Way.sha256", Kind::kDigest, kDigestBytes, kDigestBytes},
    {"Way.steps", Kind::kMessages, 0, 0, 256},
    {"Way.Step.delta", Kind::kDigest, kDigestBytes, kDigestBytes},
    {"Way.Step.base", Kind::kDigest, kDigestBytes, kDigestBytes},
    {"Way.Step.result", Kind::kDigest, kDigestBytes, kDigestBytes},

    {"ModelPart.sha256", Kind::kDigest, kDigestBytes, kDigestBytes},
    {"ModelPart.offset", Kind::kNumber, 0, kModel},
    {"ModelPart.total", Kind::kNumber, 0, kModel},
    {"ModelPart.bytes", Kind::kBytes, 0, kMostBytes},
    {"ModelPart.checksum", Kind::kAny},

    {"Publish.version", Kind::kNumber, 0, kLargestNumber},
    {"Publish.extractor", Kind::kDigest, 0, kDigestBytes},
    {"Publish.head", Kind::kDigest, 0, kDigestBytes},
    {"Publish.task", Kind::kName, 0, kSetNameBytes},
    {"InForce.version", Kind::kNumber, 0, kLargestNumber},
    {"InForce.task", Kind::kName, 0, kSetNameBytes},

    {"Refused.job", Kind::kNumber, 0, kLargestNumber},
    {"Refused.reason", Kind::kText, 0, kTextBytes},
    {"Leaving.reason", Kind::kText, 0, kTextBytes},
    {"JobEnd.job", Kind::kNumber, 0, kLargestNumber},
    {"JobEnd.done", Kind::kAny},
    {"JobEnd.reason", Kind::kText, 0, kTextBytes},

    {"Upload.sequence", Kind::kNumber, 0, kLargestNumber},
    {"Upload.digest", Kind::kDigest, kDigestBytes, kDigestBytes},
    {"Upload.path", Kind::kPath, 0, limits::kPathBytes},
    {"Upload.time", Kind::kNumber, 0, kLatestTime},
    {"Upload.version", Kind::kNumber, 0, kLargestNumber},
    {"Upload.extractor", Kind::kDigest, 0, kDigestBytes},
    {"Upload.head", Kind::kDigest, 0, kDigestBytes},
    {"Upload.top", Kind::kMessages, 0, 0, 100},
    {"Upload.truth", Kind::kName, 0, kClassNameBytes},
    {"Upload.removed", Kind::kAny},
    {"Upload.restores", Kind::kNumber, 0, kLargestNumber},
    {"Upload.task", Kind::kName, 0, kSetNameBytes},
    {"TopClass.name", Kind::kName, 1, kClassNameBytes},
    {"TopClass.score", Kind::kReal, 0, 1},

    {"Deletions.photos", Kind::kDigests, 0, kMostBytes},
    {"Deletions.count", Kind::kNumber, 0, kLargestNumber},
    {"Deletions.mark", Kind::kAny},
    {"Deleted.count", Kind::kNumber, 0, kLargestNumber},
    {"Trash.photos", Kind::kDigests, 0, kMostBytes},
    {"Trash.restored", Kind::kDigests, 0, kMostBytes},
    {"Trash.revision", Kind::kNumber, 0, kLargestNumber},
    {"Trash.whole", Kind::kAny},
    {"Trash.last", Kind::kAny},

    {"Uploads.lines", Kind::kBytes, 0, kMostBytes, kMostItems},  // each is looked at by itself
    {"Uploads.checksum", Kind::kAny},
    {"UploadsKept.sequence", Kind::kNumber, 0, kLargestNumber},
    {"UploadsKept.refused", Kind::kMessages, 0, 0, kMostItems},
    {"RefusedUpload.sequence", Kind::kNumber, 0, kLargestNumber},
    {"RefusedUpload.reason", Kind::kText, 0, kTextBytes},

    {"Tokens.json", Kind::kBytes, 0, kMostBytes},
    {"Tokens.checksum", Kind::kAny},
    {"Tokens.ticket_key", Kind::kBytes, 0, 64},
    {"PhotoWanted.sha256", Kind::kDigest, kDigestBytes, kDigestBytes},
    {"PhotoWanted.offset", Kind::kNumber, 0, limits::kPhotoFile},
    {"PhotoPart.sha256", Kind::kDigest, kDigestBytes, kDigestBytes},
    {"PhotoPart.offset", Kind::kNumber, 0, limits::kPhotoFile},
    {"PhotoPart.total", Kind::kNumber, 0, limits::kPhotoFile},
    {"PhotoPart.bytes", Kind::kBytes, 0, kMostBytes},
    {"PhotoPart.checksum", Kind::kAny},
    {"PhotoPart.failure", Kind::kText, 0, kTextBytes},

    {"Space.http", Kind::kName, 0, 512},
    {"Space.free", Kind::kNumber, 0, kNoEnd},
    {"Space.photos", Kind::kNumber, 0, kMostPhotos},
    {"Space.damaged", Kind::kNumber, 0, kMostPhotos},
    {"Space.gained", Kind::kNumber, 0, kNoEnd},
};

const FieldRange* range_of(const FieldDescriptor* field) {
  static const auto& by_field = *[] {
    auto* all = new std::unordered_map<const FieldDescriptor*, const FieldRange*>;
    const auto* file = FromStore::descriptor()->file();
    for (const FieldRange& r : kRanges) {
      const FieldDescriptor* f =
          file->pool()->FindFieldByName(fmt::format("{}.{}", file->package(), r.field));
      if (!f) throw Error("there is no field ", r.field, " of a message");
      all->emplace(f, &r);
    }
    return all;
  }();
  const auto it = by_field.find(field);
  return it == by_field.end() ? nullptr : it->second;
}

Status outside(const FieldRange& r, const std::string& has, const std::string& may) {
  return {Code::kUnsupported, fmt::format("{} {}; {}", r.field, has, may)};
}

template <typename T>
Status check_number(const FieldRange& r, T value) {
  const bool below = std::is_signed_v<T>
                         ? static_cast<int64_t>(value) < r.least
                         : static_cast<uint64_t>(value) < static_cast<uint64_t>(r.least);
  const bool above = std::is_signed_v<T>
                         ? static_cast<int64_t>(value) > r.most
                         : static_cast<uint64_t>(value) > static_cast<uint64_t>(r.most);
  if (!below && !above) return {};
  return outside(r, fmt::format("is {}", value),
                 fmt::format("it is from {} to {}", r.least, r.most));
}

Status check_real(const FieldRange& r, double value) {
  const auto least = static_cast<double>(r.least), most = static_cast<double>(r.most);
  if (std::isfinite(value) && value >= least && value <= most) return {};
  return outside(r, fmt::format("is {}", value),
                 fmt::format("it is from {} to {}", r.least, r.most));
}

Status check_bytes(const FieldRange& r, const std::string& bytes) {
  const auto n = static_cast<int64_t>(bytes.size());
  const auto said = [&] { return fmt::format("is '{}'", printable(bytes, 64)); };
  if (n > r.most || n < r.least) {
    return outside(r, fmt::format("has {} bytes", n),
                   fmt::format("it has from {} to {}", r.least, r.most));
  }
  if ((r.kind == Kind::kDigest && n % r.most != 0) ||
      (r.kind == Kind::kDigests && n % kDigestBytes)) {
    return outside(r, fmt::format("has {} bytes", n), "a digest has 32");
  }
  if (r.kind == Kind::kName && !is_plain(bytes)) {
    return outside(r, said(), "it is UTF-8 without control characters");
  }
  if (r.kind == Kind::kPath && n > 0 && !is_path_below(bytes)) {
    return outside(r, said(),
                   "it is a path below a directory, UTF-8 without control characters and '..'");
  }
  return {};
}

// The i-th value of a field; -1: of one that is not repeated.
Status check_value(const FieldRange& r, const Message& m, const FieldDescriptor* f, int i) {
  const Reflection& of = *m.GetReflection();
  std::string scratch;
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return check_number(r, i < 0 ? of.GetInt32(m, f) : of.GetRepeatedInt32(m, f, i));
    case FieldDescriptor::CPPTYPE_INT64:
      return check_number(r, i < 0 ? of.GetInt64(m, f) : of.GetRepeatedInt64(m, f, i));
    case FieldDescriptor::CPPTYPE_UINT32:
      return check_number(r, i < 0 ? of.GetUInt32(m, f) : of.GetRepeatedUInt32(m, f, i));
    case FieldDescriptor::CPPTYPE_UINT64:
      return check_number(r, i < 0 ? of.GetUInt64(m, f) : of.GetRepeatedUInt64(m, f, i));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return check_real(r, i < 0 ? of.GetFloat(m, f) : of.GetRepeatedFloat(m, f, i));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return check_real(r, i < 0 ? of.GetDouble(m, f) : of.GetRepeatedDouble(m, f, i));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int value = i < 0 ? of.GetEnumValue(m, f) : of.GetRepeatedEnumValue(m, f, i);
      if (f->enum_type()->FindValueByNumber(value)) return {};
      return outside(r, fmt::format("is {}", value), "wire.proto names no such value");
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return check_bytes(r, i < 0 ? of.GetStringReference(m, f, &scratch)
                                  : of.GetRepeatedStringReference(m, f, i, &scratch));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return check_message(i < 0 ? of.GetMessage(m, f) : of.GetRepeatedMessage(m, f, i));
    case FieldDescriptor::CPPTYPE_BOOL:
      break;
  }
  return {};
}

Status check_field(const Message& m, const FieldDescriptor* f) {
  const FieldRange* range = range_of(f);
  const bool message = f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (!f->is_repeated()) {
    if (message) return check_message(m.GetReflection()->GetMessage(m, f));
    if (!range) return {Code::kUnsupported, std::string(f->full_name()) + " has no range"};
    return range->kind == Kind::kAny ? Status() : check_value(*range, m, f, -1);
  }
  if (!range) return {Code::kUnsupported, std::string(f->full_name()) + " has no range"};
  const int n = m.GetReflection()->FieldSize(m, f);
  if (n > range->items) {
    return outside(*range, fmt::format("comes {} times", n),
                   fmt::format("it comes {} times at most", range->items));
  }
  for (int i = 0; i < n; ++i) {
    if (Status s = check_value(*range, m, f, i); !s.ok()) return s;
  }
  return {};
}

// A field that is not sent is 0 or empty, and must be allowed to; but for an optional one, of an
// alternative say.
bool is_said(const Message& m, const FieldDescriptor* f) {
  if (f->is_repeated()) return m.GetReflection()->FieldSize(m, f) > 0;
  if (f->has_presence()) return m.GetReflection()->HasField(m, f);
  return true;
}

void make_printable(Message& m) {
  std::vector<const FieldDescriptor*> fields;
  const Reflection& of = *m.GetReflection();
  of.ListFields(m, &fields);
  for (const FieldDescriptor* f : fields) {
    if (f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !f->is_map()) {
      if (!f->is_repeated()) make_printable(*of.MutableMessage(&m, f));
      for (int i = 0; f->is_repeated() && i < of.FieldSize(m, f); ++i) {
        make_printable(*of.MutableRepeatedMessage(&m, f, i));
      }
      continue;
    }
    const FieldRange* range = range_of(f);
    if (range && range->kind == Kind::kText) of.SetString(&m, f, as_text(of.GetString(m, f)));
  }
}

}  // namespace

std::span<const FieldRange> field_ranges() { return kRanges; }

Status check_message(const Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    if (!is_said(message, type.field(i))) continue;
    if (Status s = check_field(message, type.field(i)); !s.ok()) return s;
  }
  return {};
}

Status admit(Message& message) {
  if (Status s = check_message(message); !s.ok()) return s;
  make_printable(message);
  return {};
}

std::string as_text(std::string_view text) { return printable(text, kTextBytes); }

bool is_class_name(std::string_view name) {
  return !name.empty() && name.size() <= kClassNameBytes && is_plain(name);
}

bool is_set_name(std::string_view name) {
  return !name.empty() && name.size() <= kSetNameBytes && is_plain(name);
}

bool is_photo_path(std::string_view path) {
  return path.size() <= static_cast<size_t>(limits::kPathBytes) && is_path_below(path);
}

}  // namespace ndtrain::wire
