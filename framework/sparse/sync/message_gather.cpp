#include "framework/sparse/sync/message_gather.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
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
    std::span<float> words = {};
    std::chrono::nanoseconds done{};
  };
  std::deque<Piece> pieces;  // stay where they are

  void wait(Communicator& communicator) const {
    for (const Piece& p : pieces) communicator.wait(p.op);
  }
  void add_to(std::vector<LinkRate::Piece>& all) const {
    for (const Piece& p : pieces)
      all.push_back({p.done, static_cast<int64_t>(p.words.size_bytes())});
  }
};

struct MessageGather::Call {
  struct Site {  // another one
    size_t place;
    int from;  // a leader hears of it from its leader, or the one before, others from theirs
    int lane;
    std::optional<int> next = {};  // is told of it by this rank
    Size size{};
    Communicator::Op size_comes = 0;
    std::vector<float> words = {};
    Pieces received = {};
  };
  std::string ours;
  uint64_t most;
  Size size{};
  std::vector<float> words = {};
  std::vector<Site> sites = {};  // as they come
  std::vector<Communicator::Op> sizes_sent = {};
  Pieces sent = {}, passed_on = {};  // to other sites, in this one
};

GatherRoute gather_route_named(const std::string& name) {
  if (name == "direct") return GatherRoute::kDirect;
  if (name == "ring") return GatherRoute::kRing;
  throw Error("there are direct and ring");
}

const char* name_of(GatherRoute route) { return route == GatherRoute::kRing ? "ring" : "direct"; }

MessageGather::MessageGather(Communicator& communicator, const Sites& sites, int lane,
                             GatherRoute route)
    : communicator_(communicator), sites_(sites), lane_(lane), route_(route) {}

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

void MessageGather::begin_piece(int from, int to, std::span<float> piece, Pieces& pieces,
                                int lane) const {
  Pieces::Piece& kept = pieces.pieces.emplace_back();
  kept.words = piece;
  CommOp op = message(from, to, piece, lane);
  op.ended = &kept.done;
  op.bulk = true;
  kept.op = begin(std::move(op));
}

void MessageGather::begin_pieces(int from, int to, std::span<float> words, Pieces& pieces,
                                 int lane) const {
  constexpr size_t kWords = kPiece / sizeof(float);
  while (!words.empty()) {
    const std::span<float> piece = words.first(std::min(words.size(), kWords));
    words = words.subspan(piece.size());
    begin_piece(from, to, piece, pieces, lane);
  }
}

// Whom this rank tells what comes from other sites.
RankGroup MessageGather::others_of_site() const {
  const RankGroup& site = sites_.members();
  return sites_.leads() ? RankGroup(site.begin() + 1, site.end()) : RankGroup();
}

// By a ring each site hears all from the one before, whose own comes first. What others pass on has
// lanes of its own: who begins the next call sends its own before that.
void MessageGather::expect_sites(Call& c) const {
  const auto count = static_cast<size_t>(sites_.count()),
             here = static_cast<size_t>(sites_.place());
  const RankGroup& leaders = sites_.leaders();
  const bool ring = route_ == GatherRoute::kRing;
  for (size_t i = 1; i < count; ++i) {
    const size_t by_ring = (here + count - i) % count, in_order = i - 1 < here ? i - 1 : i;
    Call::Site& s = c.sites.emplace_back(
        Call::Site{.place = ring ? by_ring : in_order, .from = sites_.leader(), .lane = lane_});
    if (!sites_.leads()) continue;
    s.from = leaders[ring ? (here + count - 1) % count : s.place];
    if (ring && i > 1) s.lane = lane_ + 2;
    if (ring && i + 1 < count) s.next = leaders[(here + 1) % count];
  }
}

// Sizes travel in a lane of their own, so that those of the next call are there while pieces of
// this one are under way. What comes is received once its size is known, and until then waits where
// the transport has it.
void MessageGather::begin(std::string ours, uint64_t most) {
  Call& c =
      *calls_.emplace_back(std::make_unique<Call>(Call{.ours = std::move(ours), .most = most}));
  const int here = communicator_.rank();
  c.words = as_words(c.ours);
  const uint64_t bytes = c.ours.size();
  std::memcpy(c.size.data(), &bytes, sizeof bytes);
  expect_sites(c);
  for (Call::Site& s : c.sites) s.size_comes = begin(message(s.from, here, s.size, s.lane));
  if (!sites_.leads()) return;
  RankGroup to = sites_.leaders();
  std::erase(to, here);
  if (route_ == GatherRoute::kRing && !to.empty()) {
    to = {sites_.leaders()[static_cast<size_t>((sites_.place() + 1) % sites_.count())]};
  }
  for (const int r : to) {
    c.sizes_sent.push_back(begin(message(here, r, c.size, lane_)));
    begin_pieces(here, r, c.words, c.sent, lane_ + 1);
  }
}

// What comes, as it comes, to the next site and to the others of this one.
void MessageGather::pass_on(Call& c) {
  const int here = communicator_.rank();
  const RankGroup others = others_of_site();
  for (Call::Site& s : c.sites) {
    for (const Pieces::Piece& piece : s.received.pieces) {
      communicator_.wait(piece.op);
      if (s.next) begin_piece(here, *s.next, piece.words, c.sent, lane_ + 3);
      for (const int r : others) begin_piece(here, r, piece.words, c.passed_on, lane_ + 1);
    }
  }
}

std::vector<std::string> MessageGather::end() {
  Call& c = *calls_.front();
  const int here = communicator_.rank();
  const RankGroup others = others_of_site();
  std::vector<std::string> all(static_cast<size_t>(sites_.count()));
  for (Call::Site& s : c.sites) {
    communicator_.wait(s.size_comes);
    if (s.next) c.sizes_sent.push_back(begin(message(here, *s.next, s.size, lane_ + 2)));
    for (const int r : others) c.sizes_sent.push_back(begin(message(here, r, s.size, lane_)));
    uint64_t announced = 0;
    std::memcpy(&announced, s.size.data(), sizeof announced);
    if (announced > c.most) {
      communicator_.leave();  // it has memory of this call
      throw Error("rank ", sites_.leaders()[s.place], " announces ", announced,
                  " bytes of gradients, ", c.most,
                  " are the most; all ranks need the same compressor and drop");
    }
    s.words.resize((announced + sizeof(float) - 1) / sizeof(float));
    begin_pieces(s.from, here, s.words, s.received, s.lane + 1);
    all[s.place].resize(announced);
  }
  pass_on(c);
  for (const Call::Site& s : c.sites) {
    std::string& bytes = all[s.place];
    if (!bytes.empty()) std::memcpy(bytes.data(), s.words.data(), bytes.size());
  }
  c.sent.wait(communicator_);
  for (const Communicator::Op op : c.sizes_sent) communicator_.wait(op);
  c.passed_on.wait(communicator_);
  if (sites_.leads()) {
    c.sent.add_to(sent_);
    for (const Call::Site& s : c.sites) s.received.add_to(received_);
  }
  all[static_cast<size_t>(sites_.place())] = std::move(c.ours);
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
