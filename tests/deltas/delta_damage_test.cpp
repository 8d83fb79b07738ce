// Deltas as an enemy, or a bad disk, would have them.
#include <gtest/gtest.h>

#include "ndp/deltas/delta.h"
#include "ndp/deltas/delta_format.h"
#include "tests/deltas/some_model.h"

namespace ndtrain::ndp {
namespace {

using delta_format::pack;
using testing::drawn;
using testing::some_model;

class DamagedDelta : public ::testing::Test {
 protected:
  static std::string changed() {
    Model m = some_model();
    m.initialisers["fc.w"] = drawn(DType::kF32, {10, 32}, Rng(8, "fc"));
    m.initialisers["conv.w"] = Tensor({DType::kF32, {32, 3, 8, 8}});
    m.metadata["note"] = "another";
    return export_model(m);
  }

  // A header for these bytes, which need not make sense.
  std::string delta_of(const std::string& body) const {
    return delta_.substr(0, delta_format::kHeaderBytes) + body;
  }
  Code code_of(const std::string& delta) const { return apply_delta(base_, delta).status().code(); }

  const std::string base_ = export_model(some_model()), result_ = changed();
  const std::string delta_ = make_delta(base_, result_).or_throw().bytes;
};

TEST_F(DamagedDelta, OnAnotherBaseIsRefused) {
  const Status s = apply_delta(result_, delta_).status();
  EXPECT_EQ(s.code(), Code::kNotFound);
  EXPECT_NE(s.message().find(to_hex(sha256(base_)).substr(0, 12)), std::string::npos);
  EXPECT_EQ(apply_delta("", delta_).status().code(), Code::kNotFound);
}

TEST_F(DamagedDelta, CutAnywhereIsRefused) {
  for (size_t n = 0; n < delta_.size(); ++n) {
    ASSERT_EQ(code_of(delta_.substr(0, n)), Code::kCorrupt) << n << " of " << delta_.size();
  }
  EXPECT_EQ(code_of(delta_ + "x"), Code::kCorrupt);
}

TEST_F(DamagedDelta, WithAnyByteFlippedNeverMakesAnotherFile) {
  size_t made_all_the_same = 0;
  for (size_t at = 0; at < delta_.size(); ++at) {
    for (const int flip : {1, 0x80, 0xff}) {
      std::string bad = delta_;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      const Result<std::string> made = apply_delta(base_, bad);
      // zstd has a few bits that mean nothing; what is made is right or refused all the same.
      if (made.ok()) {
        EXPECT_EQ(*made, result_) << "byte " << at;
        ++made_all_the_same;
      }
    }
  }
  EXPECT_LT(made_all_the_same, delta_.size() / 100);
}

TEST_F(DamagedDelta, WithDrawnDamageNeverMakesAnotherFile) {
  Rng rng(4, "damage");
  for (int i = 0; i < 3000; ++i) {
    std::string bad = delta_;
    for (uint64_t n = 1 + rng.next_below(6); n > 0; --n) {
      const size_t at =
          delta_format::kHeaderBytes + rng.next_below(bad.size() - delta_format::kHeaderBytes - 8);
      switch (rng.next_below(3)) {
        case 0:
          bad[at] = static_cast<char>(rng.next_bits());
          break;
        case 1:
          bad.erase(at, 1 + rng.next_below(5));
          break;
        default:
          bad.insert(at, 1 + rng.next_below(5), static_cast<char>(rng.next_bits()));
      }
    }
    const Result<std::string> made = apply_delta(base_, bad);
    if (made.ok()) {
      ASSERT_EQ(*made, result_) << i;
    }
  }
}

TEST_F(DamagedDelta, ClaimsOfHugeSizesCostNothing) {
  std::string huge;
  put_varint(huge, uint64_t{1} << 60);
  EXPECT_EQ(code_of(delta_of(huge + pack("x"))), Code::kCorrupt);

  // A frame within bounds that speaks of a tensor which is not.
  for (const uint64_t length : {uint64_t{1} << 40, UINT64_MAX - 3, largest_result(base_.size())}) {
    std::string frame, body;
    put_varint(frame, 1);
    put_varint(frame, 8);
    put_varint(frame, length);
    put_varint(frame, 1);
    frame += "skeleton";
    put_varint(body, frame.size());
    body += pack(frame);
    const Status s = apply_delta(base_, delta_of(body)).status();
    EXPECT_EQ(s.code(), Code::kCorrupt);
    EXPECT_NE(s.message().find("a file of more than"), std::string::npos) << s.message();
  }

  std::string many, body;
  put_varint(many, uint64_t{1} << 40);
  put_varint(body, many.size());
  EXPECT_EQ(code_of(delta_of(body + pack(many))), Code::kCorrupt);
}

TEST_F(DamagedDelta, OfAYoungerFormatIsNamed) {
  std::string younger = delta_;
  younger[delta_format::kMagic.size()] = 2;
  EXPECT_EQ(code_of(younger), Code::kUnsupported);
  EXPECT_EQ(code_of("NDTSOMETHING" + delta_), Code::kCorrupt);
}

}  // namespace
}  // namespace ndtrain::ndp
