// Every field of wire.proto has a range, and every range holds at its edges.
#include "ndp/wire/message_limits.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "ndp/labels/label_db.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::wire {
using namespace ndp;

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::HasSubstr;
using Kind = FieldKind;

constexpr const char* kPackage = "ndtrain.wire.";

void add_types(const Descriptor* type, std::vector<const Descriptor*>& all) {
  all.push_back(type);
  for (int i = 0; i < type->nested_type_count(); ++i) add_types(type->nested_type(i), all);
}

std::vector<const Descriptor*> all_types() {
  std::vector<const Descriptor*> all;
  const auto* file = FromStore::descriptor()->file();
  for (int i = 0; i < file->message_type_count(); ++i) add_types(file->message_type(i), all);
  return all;
}

std::string name_of(const FieldDescriptor* f) {
  return f->full_name().substr(std::string(kPackage).size());
}

// A change of wire.proto without a range for what is new fails here: add a row to
// ndp/wire/message_limits.cpp.
TEST(MessageLimits, EveryFieldOfEveryMessageHasARange) {
  std::map<std::string, int> rows;
  for (const FieldRange& r : field_ranges()) ++rows[std::string(r.field)];
  for (const Descriptor* type : all_types()) {
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* f = type->field(i);
      // A message has the ranges of its fields, wherever it stands.
      if (f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !f->is_repeated()) continue;
      EXPECT_EQ(rows[name_of(f)], 1) << name_of(f);
      rows.erase(name_of(f));
    }
  }
  for (const auto& [field, n] : rows) ADD_FAILURE() << field << " is no field of wire.proto";
}

// One message with one field set, the others as small as they may be; the message of a map's entry
// stands in the message that has the map.
class Subject {
 public:
  explicit Subject(const FieldRange& range) : range_(range) {
    const auto* pool = FromStore::descriptor()->file()->pool();
    field_ = pool->FindFieldByName(kPackage + std::string(range.field));
    const Descriptor* type = field_->containing_type();
    const bool entry = type->options().map_entry();
    const Descriptor* outer = entry ? type->containing_type() : type;
    message_.reset(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(outer)->New());
    fill(*message_);
    at_ = message_.get();
    for (int i = 0; entry && i < outer->field_count(); ++i) {
      if (outer->field(i)->message_type() != type) continue;
      at_ = message_->GetReflection()->AddMessage(message_.get(), outer->field(i));
      fill(*at_);
    }
  }

  bool is_float() const { return field_->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT; }
  bool is_signed() const { return field_->cpp_type() == FieldDescriptor::CPPTYPE_INT64; }
  bool is_32() const { return field_->cpp_type() == FieldDescriptor::CPPTYPE_UINT32; }

  Status with_number(uint64_t value) {
    clear();
    const auto* of = at_->GetReflection();
    const bool many = field_->is_repeated();
    if (is_32()) {
      many ? of->AddUInt32(at_, field_, static_cast<uint32_t>(value))
           : of->SetUInt32(at_, field_, static_cast<uint32_t>(value));
    } else if (is_signed()) {
      of->SetInt64(at_, field_, static_cast<int64_t>(value));
    } else {
      of->SetUInt64(at_, field_, value);
    }
    return check_message(*message_);
  }
  Status with_real(double value) {
    const auto* of = at_->GetReflection();
    is_float() ? of->SetFloat(at_, field_, static_cast<float>(value))
               : of->SetDouble(at_, field_, value);
    return check_message(*message_);
  }
  Status with_bytes(const std::string& bytes) {
    clear();
    add(bytes);
    return check_message(*message_);
  }
  std::string admitted(const std::string& bytes) {
    clear();
    add(bytes);
    EXPECT_TRUE(admit(*message_).ok());
    return at_->GetReflection()->GetString(*at_, field_);
  }
  Status with_items(int64_t n) {
    clear();
    const auto* of = at_->GetReflection();
    for (int64_t i = 0; i < n; ++i) {
      if (range_.kind == Kind::kMessages) {
        Message& added = *of->AddMessage(at_, field_);
        i == 0 ? fill(added) : added.CopyFrom(of->GetRepeatedMessage(*at_, field_, 0));
      } else if (range_.kind == Kind::kNumber) {
        of->AddUInt32(at_, field_, static_cast<uint32_t>(range_.least));
      } else {
        add(std::string(static_cast<size_t>(range_.least), 'x'));
      }
    }
    return check_message(*message_);
  }

 private:
  void clear() {
    if (field_->is_repeated()) at_->GetReflection()->ClearField(at_, field_);
  }
  void add(const std::string& bytes) {
    const auto* of = at_->GetReflection();
    field_->is_repeated() ? of->AddString(at_, field_, bytes) : of->SetString(at_, field_, bytes);
  }
  static void fill(Message& m) {
    for (const FieldRange& r : field_ranges()) {
      const auto* f =
          m.GetDescriptor()->file()->pool()->FindFieldByName(kPackage + std::string(r.field));
      if (f->containing_type() != m.GetDescriptor() || f->is_repeated() || r.least == 0) continue;
      if (f->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        m.GetReflection()->SetString(&m, f, std::string(static_cast<size_t>(r.least), 'x'));
      } else if (f->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
        m.GetReflection()->SetUInt32(&m, f, static_cast<uint32_t>(r.least));
      } else {
        m.GetReflection()->SetUInt64(&m, f, static_cast<uint64_t>(r.least));
      }
    }
  }

  const FieldRange& range_;
  const FieldDescriptor* field_ = nullptr;
  std::unique_ptr<Message> message_;
  Message* at_ = nullptr;
};

void expect_refused(const FieldRange& r, const Status& s, const std::string& what) {
  EXPECT_FALSE(s.ok()) << r.field << " took " << what;
  EXPECT_THAT(s.message(), HasSubstr(std::string(r.field)));
}

class EdgesOf : public ::testing::TestWithParam<FieldRange> {};

TEST_P(EdgesOf, AFieldHold) {
  const FieldRange& r = GetParam();
  Subject subject(r);
  const auto least = static_cast<size_t>(r.least), most = static_cast<size_t>(r.most);
  switch (r.kind) {
    case Kind::kNumber: {
      const uint64_t largest = subject.is_32()       ? UINT32_MAX
                               : subject.is_signed() ? static_cast<uint64_t>(INT64_MAX)
                                                     : UINT64_MAX;
      for (const uint64_t good :
           {uint64_t{least}, uint64_t{least} + 1, uint64_t{most} - 1, uint64_t{most}}) {
        EXPECT_TRUE(subject.with_number(good).ok()) << r.field << " " << good;
      }
      if (most < largest) expect_refused(r, subject.with_number(most + 1), "one more");
      if (most < largest) expect_refused(r, subject.with_number(largest), "the largest");
      if (least > 0 || subject.is_signed()) {
        expect_refused(r, subject.with_number(least - 1), "one less");
      }
      break;
    }
    case Kind::kReal: {
      const auto low = static_cast<double>(r.least), high = static_cast<double>(r.most);
      const auto next = [&](double x, double to) {
        return subject.is_float() ? std::nextafter(static_cast<float>(x), static_cast<float>(to))
                                  : std::nextafter(x, to);
      };
      for (const double good : {low, next(low, high), next(high, low), high}) {
        EXPECT_TRUE(subject.with_real(good).ok()) << r.field << " " << good;
      }
      const double inf = std::numeric_limits<double>::infinity();
      for (const double bad : {next(low, -inf), next(high, inf), inf, -inf, std::nan("")}) {
        expect_refused(r, subject.with_real(bad), std::to_string(bad));
      }
      break;
    }
    case Kind::kDigest:
      EXPECT_TRUE(subject.with_bytes(std::string(32, 'x')).ok());
      EXPECT_EQ(subject.with_bytes("").ok(), r.least == 0) << r.field;
      for (const size_t n : {1, 31, 33, 64}) {
        expect_refused(r, subject.with_bytes(std::string(n, 'x')), std::to_string(n));
      }
      break;
    case Kind::kDigests:
      for (const size_t n : {size_t{0}, size_t{32}, most - 32, most}) {
        EXPECT_TRUE(subject.with_bytes(std::string(n, 'x')).ok()) << r.field << n;
      }
      for (const size_t n : {size_t{1}, size_t{31}, size_t{33}, most - 1, most + 1, most + 32}) {
        expect_refused(r, subject.with_bytes(std::string(n, 'x')), std::to_string(n));
      }
      break;
    case Kind::kBytes:
    case Kind::kName:
    case Kind::kPath:
    case Kind::kText:
      for (const size_t n : {least, least + 1, most - 1, most}) {
        EXPECT_TRUE(subject.with_bytes(std::string(n, 'x')).ok()) << r.field << " " << n;
      }
      expect_refused(r, subject.with_bytes(std::string(most + 1, 'x')), "one byte more");
      if (least > 0) expect_refused(r, subject.with_bytes(std::string(least - 1, 'x')), "one less");
      break;
    case Kind::kEnum:  // RefuseValuesOfAnEnumThatHaveNoName
    case Kind::kAny:
    case Kind::kMessages:
      break;
  }
  if (r.kind == Kind::kName || r.kind == Kind::kPath) {
    for (const char* bad : {"a\nb", "\x1b[2J", "a\xff"}) {
      expect_refused(r, subject.with_bytes(bad), "a control character");
    }
  }
  if (r.kind == Kind::kPath) {
    for (const char* bad : {"..", "../a", "a/../b", "/a", "a//b", "a/", "."}) {
      expect_refused(r, subject.with_bytes(bad), bad);
    }
  }
  if (r.kind == Kind::kText) {
    EXPECT_EQ(subject.admitted("a\nb\x1b[2J\xff"), "a\\nb\\x1b[2J\\xff") << r.field;
    EXPECT_LE(subject.admitted(std::string(most, '\n')).size(), most);
  }
  if (r.items > 1) {
    for (const int64_t n : {int64_t{0}, r.items - 1, r.items}) {
      EXPECT_TRUE(subject.with_items(n).ok()) << r.field << " " << n;
    }
    expect_refused(r, subject.with_items(r.items + 1), "one item more");
  }
}

INSTANTIATE_TEST_SUITE_P(MessageLimits, EdgesOf,
                         ::testing::ValuesIn(field_ranges().begin(), field_ranges().end()),
                         [](const auto& test) {
                           std::string name(test.param.field);
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST(MessageLimits, HoldForMessagesWithinMessagesToo) {
  FromStore m;
  m.mutable_hello()->set_store("a");
  EXPECT_TRUE(admit(m).ok());
  m.mutable_hello()->set_photos(UINT64_MAX);
  EXPECT_EQ(admit(m).message(), "Hello.photos is 18446744073709551615; it is from 0 to 67108864");
  m.mutable_rows()->add_unreadable()->set_number(UINT64_MAX);
  EXPECT_THAT(admit(m).message(), HasSubstr("Unreadable.number"));
  m.mutable_run_done()->add_stages()->set_name("load\x1b");
  EXPECT_THAT(admit(m).message(), HasSubstr("Stage.name is 'load\\x1b'"));
  (*m.mutable_run_done()->mutable_made_from())["crops\n"] = 1;
  m.mutable_run_done()->clear_stages();
  EXPECT_THAT(admit(m).message(), HasSubstr("RunDone.MadeFromEntry.key"));
}

TEST(MessageLimits, RefuseValuesOfAnEnumThatHaveNoName) {
  ToStore m;
  m.mutable_job()->set_rows(Job::FILES);
  EXPECT_TRUE(admit(m).ok());
  m.mutable_job()->set_rows(static_cast<Job::Rows>(Job::FILES + 1));
  EXPECT_THAT(admit(m).message(), HasSubstr("Job.rows is 5"));
}

TEST(MessageLimits, MakeWhatPeopleReadPrintableOnArrival) {
  FromStore m;
  m.mutable_refused()->set_reason("no\nerror: root\x1b[2J");
  ASSERT_TRUE(admit(m).ok());
  EXPECT_EQ(m.refused().reason(), "no\\nerror: root\\x1b[2J");
  m.mutable_rows()->add_unreadable()->set_path("a\nb.jpg");
  ASSERT_TRUE(admit(m).ok());
  EXPECT_EQ(m.rows().unreadable(0).path(), "a\\nb.jpg");
  EXPECT_EQ(as_text("a\n" + std::string(kTextBytes, 'b')).size(), static_cast<size_t>(kTextBytes));
}

TEST(MessageLimits, TakeTheClassNamesThatPeopleMayGive) {
  const std::string longest(static_cast<size_t>(kClassNameBytes), 'x');
  for (const std::string& name : {std::string("rose"), std::string("Gänseblümchen"), longest,
                                  longest + "x", std::string(), std::string("a\nb")}) {
    EXPECT_EQ(is_class_name(name), check_class_name(name).ok()) << name;
  }
}

}  // namespace
}  // namespace ndtrain::wire
