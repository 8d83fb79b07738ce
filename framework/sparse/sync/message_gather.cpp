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

// That are under way, and when each was done.
struct MessageGather::Pieces {
  struct Piece {
    Communicator::Op op = 0;
    int64_t bytes = 0;
    std::chrono::nanoseconds done{};
  };
  std::deque<Piece> pieces;  // stay where they are

  void wait(Communicator& communicator) const {
    for (const Piece& p : pieces) communicator.wait(p.op);
  }
  void add_to(std::vector<LinkRate::Piece>& all) const {
    for (const Piece& p : pieces) all.push_back({p.done, p.bytes});
  }
};

struct MessageGather::Call {
  struct Site {  // another one
    int leader;
    int from;  // a leader hears of it from its leader, others from theirs
    Size size{};
    Communicator::Op size_comes = 0;
    std::vector<float> words = {};
    Pieces received = {};
  };
  std::string ours;
  uint64_t most;
  Size size{};
  std::vector<float> words = {};
  std::vector<Site> sites = {};
  std::vector<Communicator::Op> sizes_sent = {};
  Pieces sent = {}, passed_on = {};
};

MessageGather::MessageGather(Communicator& communicator, const Sites& sites, int lane)
    : communicator_(communicator), sites_(sites), lane_(lane) {}

MessageGather::~MessageGather() = default;

CommOp MessageGather::message(int from, int to, std::span<float> data, int lane) const {
  CommOp op{.kind = CommOp::Kind::kMessage,
            .group = {std::min(from, to), std::max(from, to)},
            .name = "sparse gradients",
            .data = data};
  op.root = from;
  op.lane = lane;
  return op;
}

Communicator::Op MessageGather::begin(CommOp op) const {
  const Communicator::Op id = communicator_.enqueue(std::move(op));
  communicator_.release(id);
  return id;
}

void MessageGather::begin_pieces(int from, int to, std::span<float> words, Pieces& pieces) const {
  constexpr size_t kWords = kPiece / sizeof(float);
  while (!words.empty()) {
    const std::span<float> piece = words.first(std::min(words.size(), kWords));
    words = words.subspan(piece.size());
    Pieces::Piece& kept = pieces.pieces.emplace_back();
    kept.bytes = static_cast<int64_t>(piece.size_bytes());
    CommOp op = message(from, to, piece, lane_ + 1);
    op.ended = &kept.done;
    kept.op = begin(std::move(op));
  }
}

// Whom this rank tells what comes from other sites.
RankGroup MessageGather::others_of_site() const {
  const RankGroup& site = sites_.members();
  return sites_.leads() ? RankGroup(site.begin() + 1, site.end()) : RankGroup();
}

// Sizes travel in a lane of their own, so that those of the next call are there while pieces of
// this one are under way. What comes is received once its size is known, and until then waits where
// the transport has it.
void MessageGather::begin(std::string ours, uint64_t most) {
  Call& c =
      *calls_.emplace_back(std::make_unique<Call>(Call{.ours = std::move(ours), .most = most}));
  const int here = communicator_.rank();
  for (const int leader : sites_.leaders()) {
    if (leader == sites_.leader()) continue;
    c.sites.push_back({.leader = leader, .from = sites_.leads() ? leader : sites_.leader()});
  }
  c.words = as_words(c.ours);
  const uint64_t bytes = c.ours.size();
  std::memcpy(c.size.data(), &bytes, sizeof bytes);
  for (Call::Site& s : c.sites) {
    s.size_comes = begin(message(s.from, here, s.size, lane_));
    if (!sites_.leads()) continue;
    c.sizes_sent.push_back(begin(message(here, s.leader, c.size, lane_)));
    begin_pieces(here, s.leader, c.words, c.sent);
  }
}

std::vector<std::string> MessageGather::end() {
  Call& c = *calls_.front();
  const int here = communicator_.rank();
  const RankGroup others = others_of_site();
  std::vector<std::string> all;
  for (Call::Site& s : c.sites) {
    communicator_.wait(s.size_comes);
    for (const int r : others) c.sizes_sent.push_back(begin(message(here, r, s.size, lane_)));
    uint64_t announced = 0;
    std::memcpy(&announced, s.size.data(), sizeof announced);
    if (announced > c.most) {
      communicator_.leave();  // it has memory of this call
      throw Error("rank ", s.leader, " announces ", announced, " bytes of gradients, ", c.most,
                  " are the most; all ranks need the same compressor and drop");
    }
    s.words.resize((announced + sizeof(float) - 1) / sizeof(float));
    begin_pieces(s.from, here, s.words, s.received);
    all.emplace_back(announced, '\0');
  }
  for (size_t i = 0; i < c.sites.size(); ++i) {
    Call::Site& s = c.sites[i];
    s.received.wait(communicator_);
    for (const int r : others) begin_pieces(here, r, s.words, c.passed_on);
    if (!all[i].empty()) std::memcpy(all[i].data(), s.words.data(), all[i].size());
  }
  c.sent.wait(communicator_);
  for (const Communicator::Op op : c.sizes_sent) communicator_.wait(op);
  c.passed_on.wait(communicator_);
  if (sites_.leads()) {
    c.sent.add_to(sent_);
    for (const Call::Site& s : c.sites) s.received.add_to(received_);
  }
  all.insert(all.begin() + sites_.place(), std::move(c.ours));
  calls_.pop_front();
  if (calls_.empty()) {
    send_.add(std::exchange(sent_, {}));
    receive_.add(std::exchange(received_, {}));
  }
  return all;
}

std::vector<std::string> MessageGather::gather(std::string ours, uint64_t most) {
  begin(std::move(ours), most);
  return end();
}

}  // namespace ndtrain
