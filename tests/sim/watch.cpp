#include "tests/sim/watch.h"

#include <algorithm>

#include "ndp/wire/numbers.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

void Watch::sends(uint64_t link, const wire::Rows& rows) {
  std::vector<uint64_t> numbers =
      unpack_numbers(rows.numbers(), UINT64_MAX, rows.numbers().size()).or_throw();
  for (const wire::Unreadable& u : rows.unreadable()) std::erase(numbers, u.number());
  chunks_[{link, rows.chunk()}] = std::move(numbers);
}

void Watch::acknowledges(uint64_t link, const wire::Ack& ack) {
  const auto sent = chunks_.find({link, ack.chunk()});
  if (sent == chunks_.end()) {
    return violation("chunk " + std::to_string(ack.chunk()) +
                     " is acknowledged, which the store has not sent in this session");
  }
  for (const uint64_t number : sent->second) {
    if (!durable_.contains(number)) {
      violation("photo " + std::to_string(number) + " is acknowledged before it is durable");
    }
    promised_.insert(number);
  }
}

void Watch::opened(const Manifest&, const std::vector<uint64_t>& durable) {
  durable_ = {durable.begin(), durable.end()};
  for (const uint64_t number : promised_) {
    if (!durable_.contains(number)) {
      return violation("photo " + std::to_string(number) + " was acknowledged and is lost");
    }
  }
}

void Watch::kept(uint64_t number) { repeats += !durable_.insert(number).second; }

}  // namespace ndtrain::sim
