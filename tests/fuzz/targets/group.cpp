#include <algorithm>
#include <chrono>
#include <functional>
#include <span>

#include "framework/comm/announced.h"
#include "framework/comm/rank_hello.h"
#include "framework/core/coding.h"
#include "framework/testing/memory_net.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"
#include "tuner/group/group_rows.h"
#include "tuner/group/group_rules.h"

namespace ndtrain::fuzz {
namespace {

using namespace tuner;

// What a rank hears that another one says before it closes.
template <typename T>
bool heard(std::string_view said, Result<T> (*read)(Stream&, std::chrono::milliseconds)) {
  MemoryNet net;
  const auto listener = net.listen("rank:0").or_throw();
  const auto other = net.dial(listener->address()).or_throw();
  const auto stream = listener->accept(std::chrono::seconds(1)).or_throw();
  other->write(std::as_bytes(std::span(said))).or_throw();
  other->close();
  return read(*stream, std::chrono::seconds(1)).ok();
}
std::string said_by(const std::function<Status(Stream&)>& say) {
  MemoryNet net;
  const auto listener = net.listen("rank:0").or_throw();
  const auto one = net.dial(listener->address()).or_throw();
  const auto other = listener->accept(std::chrono::seconds(1)).or_throw();
  say(*one).or_throw();
  std::vector<std::byte> bytes(size_t{64} << 10);
  bytes.resize(other->read(bytes, std::chrono::seconds(1)).or_throw());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A frame has a checksum: what is changed is its JSON.
std::string in_frame(FrameHeader::Kind kind, std::string_view body) {
  return said_by([&](Stream& s) { return write_frame(s, kind, std::as_bytes(std::span(body))); });
}
std::string body_of(const std::string& frame) { return frame.substr(frame.find("{\"")); }

bool read_rank_hello(std::string_view input) {
  return heard(input, read_hello) ||
         heard(in_frame(FrameHeader::Kind::kHello, input.substr(0, 4096)), read_hello);
}
std::vector<std::string> rank_hellos() {
  const RankHello hello{.rank = 1,
                        .ranks = 3,
                        .generation = 7,
                        .address = "10.0.0.7:4000",
                        .fingerprint = {{"program", "0.1.0"}},
                        .site = "attic"};
  const std::string frame = said_by([&](Stream& s) { return write_hello(s, hello); });
  return {frame, body_of(frame)};
}

bool read_rank_answer(std::string_view input) {
  return heard(input, read_answer) ||
         heard(in_frame(FrameHeader::Kind::kAnswer, input.substr(0, 4096)), read_answer);
}
std::vector<std::string> rank_answers() {
  const RankAnswer answer{.addresses = {"a:1", "b:2"}, .relayed = {2}};
  const std::string frame = said_by([&](Stream& s) { return write_answer(s, answer); });
  return {frame, body_of(frame)};
}

bool read_rules(std::string_view input) {
  parse_rules(input);
  return true;
}
std::vector<std::string> rules() {
  return {rules_text({.trainable = {"fc.w", "fc.b"}, .rows = sha256("extractor")})};
}

bool read_rows(std::string_view input) { return !described_rows(input).photos.empty(); }
std::vector<std::string> rows() {
  std::string all;
  for (const char* const photo : {"a", "b"}) {
    const Digest digest = sha256(photo);
    all.append(reinterpret_cast<const char*>(digest.data()), digest.size());
    all += std::string(3 * sizeof(uint64_t), '\0');  // its label and weights
  }
  return {all};
}

// Its total and tag, then what comes with it.
bool read_announcement(std::string_view input) {
  constexpr size_t kFields = 2 * sizeof(uint64_t);
  if (input.size() < kFields) return false;
  const auto bytes = support::bytes_of(input);
  const auto field = [&](size_t i) {
    return load_le<uint64_t>(bytes.data() + i * sizeof(uint64_t));
  };
  const FrameHeader header{.kind = FrameHeader::Kind::kPart, .tag = field(1), .total = field(0)};
  Result<Announced::Message> message = announced_by(header, bytes.subspan(kFields));
  if (!message.ok()) return false;
  Announced announced;
  announced.add(std::move(*message));
  announced.begin_generation(1);  // which it is before
  return announced.bytes() == 0;
}
std::vector<std::string> announcements() {
  std::string all(2 * sizeof(uint64_t), '\0');
  all[0] = 4;  // bytes
  return {all + "body"};
}

}  // namespace

std::vector<FuzzTarget> group_targets() {
  return {{"rank_hello", read_rank_hello, rank_hellos},
          {"rank_answer", read_rank_answer, rank_answers},
          {"announced", read_announcement, announcements},
          {"group_rules", read_rules, rules},
          {"group_rows", read_rows, rows}};
}

}  // namespace ndtrain::fuzz
