#include "ndp/store/segment_format.h"

#include <gtest/gtest.h>

#include "framework/core/limits.h"

namespace ndtrain::ndp {
namespace {

TEST(SegmentFormat, HeadersComeBackAsTheyWere) {
  const SegmentHeader segment{.number = 77, .salt = 0x0123456789abcdef, .group = sha256("g")};
  const auto s = decode_segment_header(encode(segment));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->version, kSegmentVersion);
  EXPECT_EQ(s->number, 77u);
  EXPECT_EQ(s->salt, segment.salt);
  EXPECT_EQ(s->group, segment.group);

  const RecordHeader record{.kind = RecordKind::kPut,
                            .meta = {DType::kF16, 3, numerics_tag("cpu 1.0 avx512")},
                            .length = 12345,
                            .key = sha256("k"),
                            .payload_xxh3 = 99};
  const auto r = decode_record_header(encode(record, 5), 5);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->kind, record.kind);
  EXPECT_EQ(r->meta, record.meta);
  EXPECT_EQ(r->length, record.length);
  EXPECT_EQ(r->key, record.key);
  EXPECT_EQ(r->payload_xxh3, record.payload_xxh3);
}

TEST(SegmentFormat, AFlippedBitAnywhereInAHeaderIsDetected) {
  const auto segment = encode(SegmentHeader{.number = 1, .salt = 2, .group = sha256("g")});
  const auto record = encode(RecordHeader{.length = 8, .key = sha256("k")}, 2);
  for (size_t bit = 0; bit < 8 * segment.size(); ++bit) {
    auto bad = segment;
    bad[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(decode_segment_header(bad)) << bit;
  }
  for (size_t bit = 0; bit < 8 * record.size(); ++bit) {
    auto bad = record;
    bad[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(decode_record_header(bad, 2)) << bit;
  }
  EXPECT_FALSE(decode_record_header(record, 3)) << "a record of another file";
  EXPECT_FALSE(decode_record_header(std::span(record).first(71), 2));
  EXPECT_FALSE(decode_segment_header(std::span(segment).first(63)));
}

TEST(SegmentFormat, ARecordMayHaveTheLimitButNotMore) {
  const auto decodes = [](int64_t length) {
    const RecordHeader header{.length = static_cast<uint32_t>(length)};
    return decode_record_header(encode(header, 0), 0).has_value();
  };
  const auto largest = limits::kRecord - static_cast<int64_t>(kRecordHeaderBytes);
  EXPECT_TRUE(decodes(largest - 1));
  EXPECT_TRUE(decodes(largest));
  EXPECT_FALSE(decodes(largest + 1));
}

TEST(SegmentFormat, FileNamesAreNumbers) {
  EXPECT_EQ(segment_name(1), "0000000001.seg");
  EXPECT_EQ(segment_number(segment_name(UINT32_MAX)), UINT32_MAX);
  for (const char* name :
       {"9999999999.seg", "1.seg", "000000000a.seg", "0000000001.sog", "index"}) {
    EXPECT_EQ(segment_number(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace ndtrain::ndp
