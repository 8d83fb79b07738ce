#include "framework/sparse/sync/message_gather.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace ndtrain {
namespace {

// A message is of floats, whose bits are these.
std::vector<float> as_words(const std::string& bytes) {
  std::vector<float> words((bytes.size() + sizeof(float) - 1) / sizeof(float));
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

using Size = std::array<float, sizeof(uint64_t) / sizeof(float)>;

}  // namespace

MessageGather::MessageGather(Communicator& communicator, int lane)
    : communicator_(communicator), lane_(lane) {}

CommOp MessageGather::message(int from, int to, std::span<float> data) const {
  CommOp op{.kind = CommOp::Kind::kMessage,
            .group = {std::min(from, to), std::max(from, to)},
            .name = "sparse gradients",
            .data = data};
  op.root = from;
  op.lane = lane_;
  return op;
}

Communicator::Op MessageGather::begin(CommOp op) const {
  const Communicator::Op id = communicator_.enqueue(std::move(op));
  communicator_.release(id);
  return id;
}

// Sizes travel first. What comes is received once its size is known, and until then waits where the
// transport has it.
std::vector<std::string> MessageGather::gather(std::string ours, uint64_t most) {
  struct Peer {
    int rank;
    Size size{};
    Communicator::Op comes = 0;
    std::vector<float> words = {};
  };
  const int here = communicator_.rank();
  std::vector<Peer> peers;
  for (const int r : communicator_.members()) {
    if (r != here) peers.push_back({.rank = r});
  }
  std::vector<float> words = as_words(ours);
  Size size;
  const uint64_t bytes = ours.size();
  std::memcpy(size.data(), &bytes, sizeof bytes);
  std::vector<Communicator::Op> sent;
  for (Peer& p : peers) {
    p.comes = begin(message(p.rank, here, p.size));
    sent.push_back(begin(message(here, p.rank, size)));
    if (!words.empty()) sent.push_back(begin(message(here, p.rank, words)));
  }
  std::vector<std::string> all;
  for (Peer& p : peers) {
    communicator_.wait(p.comes);
    uint64_t announced = 0;
    std::memcpy(&announced, p.size.data(), sizeof announced);
    if (announced > most) {
      communicator_.leave();  // it has memory of this call
      throw Error("rank ", p.rank, " announces ", announced, " bytes of gradients, ", most,
                  " are the most; all ranks need the same compressor and drop");
    }
    p.words.resize((announced + sizeof(float) - 1) / sizeof(float));
    if (!p.words.empty()) p.comes = begin(message(p.rank, here, p.words));
    all.emplace_back(announced, '\0');
  }
  for (size_t i = 0; i < peers.size(); ++i) {
    if (all[i].empty()) continue;
    communicator_.wait(peers[i].comes);
    std::memcpy(all[i].data(), peers[i].words.data(), all[i].size());
  }
  for (const Communicator::Op op : sent) communicator_.wait(op);
  const auto place = std::ranges::count_if(peers, [&](const Peer& p) { return p.rank < here; });
  all.insert(all.begin() + place, std::move(ours));
  return all;
}

}  // namespace ndtrain
