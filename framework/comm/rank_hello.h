// What ranks say to each other when they meet.
#pragma once

#include <string>
#include <vector>

#include "framework/comm/frame.h"
#include "framework/comm/rendezvous.h"

namespace ndtrain {

struct RankHello {
  int rank = 0, ranks = 0;
  uint32_t generation = 0;
  std::string address;  // where it listens for the ranks above it; "": nowhere
  Fingerprint fingerprint;
  int to = 0;          // the rank it wants: at rank 0 another one, by its relay
  bool relay = false;  // see RankPlace
  std::string site;
};

struct RankAnswer {
  std::string refusal;  // empty: welcome
  // Of all ranks, as who is answered reaches them; empty for rank 0, those that its relay leads to,
  // or where nobody asks.
  std::vector<std::string> addresses;
  std::vector<int> relayed;  // ranks above, that come by the relay
};

Status write_hello(Stream& stream, const RankHello& hello);
Status write_answer(Stream& stream, const RankAnswer& answer);
// Untrusted. kCorrupt: it is no such thing; else as FrameReader has it.
Result<RankHello> read_hello(Stream& stream, std::chrono::milliseconds patience);
Result<RankAnswer> read_answer(Stream& stream, std::chrono::milliseconds patience);

}  // namespace ndtrain
