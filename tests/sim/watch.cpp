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
  chunks_[{link, rows.job(), rows.chunk()}] = std::move(numbers);
}

void Watch::acknowledges(uint64_t link, const wire::Ack& ack) {
  const auto sent = chunks_.find({link, ack.job(), ack.chunk()});
  if (sent == chunks_.end()) {
    return violation("chunk " + std::to_string(ack.chunk()) +
                     " is acknowledged, which the store has not sent in this session");
  }
  Job& job = jobs_[ack.job()];
  for (const uint64_t number : sent->second) {
    if (!job.durable.contains(number)) {
      violation("photo " + std::to_string(number) + " is acknowledged before it is durable");
    }
    job.promised.insert(number);
  }
}

void Watch::opened(uint64_t id, const Manifest& manifest, const std::string& model,
                   const std::vector<uint64_t>& durable) {
  Job& job = jobs_[id];
  job.durable = {durable.begin(), durable.end()};
  const std::pair rows(manifest.digest(), model);
  if (std::exchange(job.rows, rows) != rows) job.promised.clear();
  for (const uint64_t number : job.promised) {
    if (!job.durable.contains(number)) {
      return violation("photo " + std::to_string(number) + " of job " + std::to_string(id) +
                       " was acknowledged and is lost");
    }
  }
}

void Watch::kept(uint64_t job, uint64_t number) {
  repeats += !jobs_[job].durable.insert(number).second;
}

}  // namespace ndtrain::sim
