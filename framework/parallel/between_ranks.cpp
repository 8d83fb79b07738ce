#include "framework/parallel/between_ranks.h"

#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "framework/core/json.h"

namespace ndtrain {
namespace {

RankGroup all_ranks(const Communicator& communicator) {
  RankGroup all(static_cast<size_t>(communicator.ranks()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void carry_out(Communicator& communicator, CommOp op) {
  const Communicator::Op id = communicator.enqueue(std::move(op));
  communicator.release(id);
  communicator.wait(id);
}

// As floats, which are moved bit by bit.
void broadcast_memory(Communicator& communicator, int root, std::span<float> memory) {
  CommOp op{.kind = CommOp::Kind::kBroadcast, .group = all_ranks(communicator), .name = "bytes"};
  op.data = memory;
  op.root = root;
  carry_out(communicator, std::move(op));
}

std::string to_text(const Fingerprint& f) { return json_text(Json(f)); }

Fingerprint from_text(const std::string& text) {
  const Json j = try_parse_json(text);
  if (j.is_discarded()) throw Error("what a rank says of itself is no JSON");
  return j.get<Fingerprint>();
}

}  // namespace

void barrier(Communicator& communicator) {
  carry_out(communicator,
            {.kind = CommOp::Kind::kBarrier, .group = all_ranks(communicator), .name = "barrier"});
}

std::string broadcast(Communicator& communicator, int root, const std::string& bytes) {
  uint64_t size = bytes.size();
  float words[sizeof size / sizeof(float)];
  std::memcpy(words, &size, sizeof size);
  broadcast_memory(communicator, root, words);
  std::memcpy(&size, words, sizeof size);
  if (size == 0) return "";
  std::vector<float> memory((size + sizeof(float) - 1) / sizeof(float));
  if (communicator.rank() == root) std::memcpy(memory.data(), bytes.data(), bytes.size());
  broadcast_memory(communicator, root, memory);
  return {reinterpret_cast<const char*>(memory.data()), size};
}

void check_same(Communicator& communicator, const Fingerprint& ours) {
  Fingerprint first;
  std::string why;
  for (int r = 0; r < communicator.ranks(); ++r) {
    const Fingerprint theirs = from_text(broadcast(communicator, r, to_text(ours)));
    if (r == 0) first = theirs;
    const std::string difference = first_difference(first, theirs);
    if (why.empty() && !difference.empty()) {
      why = "rank " + std::to_string(r) + " is not of the same run as rank 0: its " + difference;
    }
  }
  if (!why.empty()) throw Error(why);
}

}  // namespace ndtrain
