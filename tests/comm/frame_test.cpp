#include "framework/comm/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/testing/memory_net.h"
#include "tests/support/files.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using support::bytes_of;
using ::testing::HasSubstr;

class Frames : public ::testing::Test {
 protected:
  Frames() {
    const auto listener = net_.listen("rank:1").or_throw();
    writer = net_.dial("rank:1").or_throw();
    stream_ = listener->accept(0ms).or_throw();
    reader = std::make_unique<FrameReader>(*stream_, 50ms);
  }

  static std::vector<std::byte> part(std::string_view body, uint64_t tag = 77) {
    std::vector<std::byte> frame(kFrameHeaderBytes);
    const auto bytes = bytes_of(body);
    frame.insert(frame.end(), bytes.begin(), bytes.end());
    seal_frame({.kind = FrameHeader::Kind::kPart,
                .generation = 3,
                .length = static_cast<uint32_t>(body.size()),
                .tag = tag,
                .total = uint64_t{1} << 40,
                .offset = uint64_t{1} << 33},
               frame);
    return frame;
  }

  MemoryNet net_;
  std::unique_ptr<Stream> writer, stream_;
  std::unique_ptr<FrameReader> reader;
};

TEST_F(Frames, ComeAsTheyWereSent) {
  writer->write(part("body")).or_throw();
  write_frame(*writer, FrameHeader::Kind::kBye).or_throw();
  const std::string longest(kMostFrameBytes, 'l');
  write_frame(*writer, FrameHeader::Kind::kHello, bytes_of(longest)).or_throw();

  const auto first = reader->next().or_throw();
  EXPECT_EQ(first.header.kind, FrameHeader::Kind::kPart);
  EXPECT_EQ(first.header.generation, 3u);
  EXPECT_EQ(first.header.tag, 77u);
  EXPECT_EQ(first.header.total, uint64_t{1} << 40);
  EXPECT_EQ(first.header.offset, uint64_t{1} << 33);
  EXPECT_TRUE(std::ranges::equal(first.body, bytes_of("body")));
  EXPECT_EQ(reader->next().or_throw().header.kind, FrameHeader::Kind::kBye);
  const auto last = reader->next().or_throw();
  EXPECT_TRUE(std::ranges::equal(last.body, bytes_of(longest)));
}

TEST_F(Frames, NoneIsLongerThanTheyMayBe) {
  const std::string longer(kMostFrameBytes + 1, 'l');
  EXPECT_EQ(write_frame(*writer, FrameHeader::Kind::kHello, bytes_of(longer)).code(),
            Code::kTooLarge);
  std::vector<std::byte> frame(kFrameHeaderBytes + longer.size());
  seal_frame({.length = static_cast<uint32_t>(longer.size())}, frame);
  writer->write(frame).or_throw();
  EXPECT_EQ(reader->next().status().code(), Code::kCorrupt);
  EXPECT_THROW(seal_frame({.length = 3}, frame), Error);
}

TEST_F(Frames, AnyDamagedByteIsNoticed) {
  const std::vector<std::byte> good = part("body");
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{0x10};
    writer->write(bad).or_throw();
    const Status s = FrameReader(*stream_, 50ms).next().status();
    EXPECT_EQ(s.code(), Code::kCorrupt) << "byte " << i;
    if (i >= kFrameHeaderBytes) {
      EXPECT_THAT(s.message(), HasSubstr("message 77"));
    }
    // What follows the header was not read where it was the header that was damaged.
    std::byte rest[100];
    while (stream_->read(rest, 0ms).ok()) {
    }
  }
}

TEST_F(Frames, SilenceAndTheEndAreToldApart) {
  EXPECT_EQ(reader->next().status().code(), Code::kCancelled);
  const std::vector<std::byte> frame = part("body");
  writer->write(std::span(frame).first(kFrameHeaderBytes + 2)).or_throw();
  const Status silent = reader->next().status();
  EXPECT_EQ(silent.code(), Code::kCancelled);
  EXPECT_EQ(silent.message(), "silent for 50 ms");
  writer->close();
  const Status over = reader->next().status();
  EXPECT_EQ(over.code(), Code::kIo);
  EXPECT_EQ(over.message(), "hung up");
}

}  // namespace
}  // namespace ndtrain::comm_tests
