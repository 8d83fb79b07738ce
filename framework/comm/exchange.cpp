#include "framework/comm/exchange.h"

#include <algorithm>
#include <utility>

namespace ndtrain {
namespace {

constexpr size_t kUnderWay = 4;  // pieces

}  // namespace

Exchange::Exchange(CommOp op, std::vector<uint64_t> tags, size_t piece, Transport& transport,
                   BufferPool& buffers)
    : op_(std::move(op)),
      tags_(std::move(tags)),
      piece_(piece),
      transport_(transport),
      buffers_(buffers),
      place_(static_cast<size_t>(std::ranges::find(op_.group, transport.rank()) -
                                 op_.group.begin())) {}

void Exchange::begin() {
  if (op_.native && (op_.group.size() > 1 || transport_.collects_on_device())) {
    collecting_ = native_.emplace(op_, place_).begin(transport_);
    return;
  }
  size_t longest = 1;  // the piece of a barrier
  for (size_t p = 0; p < op_.group.size(); ++p) {
    longest = std::max(longest, part_of(op_, p).size());
    if (op_.kind == CommOp::Kind::kAllToAll) {
      longest = std::max(longest, received_part_of(op_, p).size());
    }
  }
  count_ = (longest - 1) / piece_ + 1;
  go_on();
}

// Begins what may begin, in the order of the parts.
void Exchange::go_on() {
  while (begun_ < count_ && pieces_.size() < kUnderWay) {
    const ExchangePiece::Operation of{op_, tags_, place_, transport_, buffers_};
    pieces_.emplace_back(of, begun_++, piece_).begin();
    if (pieces_.back().finished()) pieces_.pop_back();
  }
}

void Exchange::ended(Transport::Request request) {
  if (request == collecting_) {
    native_->take();
    collecting_.reset();
    return;
  }
  for (ExchangePiece& p : pieces_) {
    if (p.ended(request)) break;
  }
  std::erase_if(pieces_, [](const ExchangePiece& p) { return p.finished(); });
  go_on();
}

std::set<int> Exchange::peers_of(Transport::Request request) const {
  if (request == collecting_) return others();
  for (const ExchangePiece& p : pieces_) {
    if (const std::optional<int> peer = p.peer_of(request)) return {*peer};
  }
  return {};
}

std::set<int> Exchange::lacking() const {
  std::set<int> all;
  if (collecting_) all = others();
  for (const ExchangePiece& p : pieces_) p.add_lacking(all);
  return all;
}

std::set<int> Exchange::others() const {
  std::set<int> all(op_.group.begin(), op_.group.end());
  if (all.size() > 1) all.erase(op_.group[place_]);
  return all;
}

}  // namespace ndtrain
