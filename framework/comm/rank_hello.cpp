#include "framework/comm/rank_hello.h"

#include "framework/core/json.h"
#include "framework/core/json_input.h"

namespace ndtrain {
namespace {

Status write_json(Stream& stream, FrameHeader::Kind kind, const Json& json) {
  const std::string text = json_text_replacing(json);
  return write_frame(stream, kind, std::as_bytes(std::span(text)));
}

Result<Json> read_frame_json(Stream& stream, FrameHeader::Kind kind,
                             std::chrono::milliseconds patience) {
  FrameReader frames(stream, patience);
  const Result<FrameReader::Frame> frame = frames.next();
  if (!frame.ok()) return frame.status();
  if (frame->header.kind != kind) return Status(Code::kCorrupt, "no greeting of a rank");
  return read_json({reinterpret_cast<const char*>(frame->body.data()), frame->body.size()});
}

}  // namespace

Status write_hello(Stream& stream, const RankHello& hello) {
  return write_json(stream, FrameHeader::Kind::kHello,
                    {{"rank", hello.rank},
                     {"ranks", hello.ranks},
                     {"generation", hello.generation},
                     {"address", hello.address},
                     {"fingerprint", hello.fingerprint},
                     {"to", hello.to},
                     {"relay", hello.relay},
                     {"site", hello.site}});
}

Status write_answer(Stream& stream, const RankAnswer& answer) {
  return write_json(
      stream, FrameHeader::Kind::kAnswer,
      {{"refusal", answer.refusal}, {"addresses", answer.addresses}, {"relayed", answer.relayed}});
}

Result<RankHello> read_hello(Stream& stream, std::chrono::milliseconds patience) {
  const Result<Json> json = read_frame_json(stream, FrameHeader::Kind::kHello, patience);
  if (!json.ok()) return json.status();
  try {
    return RankHello{.rank = json->at("rank").get<int>(),
                     .ranks = json->at("ranks").get<int>(),
                     .generation = json->at("generation").get<uint32_t>(),
                     .address = json->at("address").get<std::string>(),
                     .fingerprint = json->at("fingerprint").get<Fingerprint>(),
                     .to = json->at("to").get<int>(),
                     .relay = json->at("relay").get<bool>(),
                     .site = json->at("site").get<std::string>()};
  } catch (const Json::exception&) {
    return Status(Code::kCorrupt, "no greeting of a rank");
  }
}

Result<RankAnswer> read_answer(Stream& stream, std::chrono::milliseconds patience) {
  const Result<Json> json = read_frame_json(stream, FrameHeader::Kind::kAnswer, patience);
  if (!json.ok()) return json.status();
  try {
    return RankAnswer{.refusal = json->at("refusal").get<std::string>(),
                      .addresses = json->at("addresses").get<std::vector<std::string>>(),
                      .relayed = json->at("relayed").get<std::vector<int>>()};
  } catch (const Json::exception&) {
    return Status(Code::kCorrupt, "no answer to a rank");
  }
}

}  // namespace ndtrain
