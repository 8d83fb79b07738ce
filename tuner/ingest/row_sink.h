// Where the rows of a job go. A sink makes them durable; it lives on a lane of its own.
#pragma once

#include <span>
#include <vector>

#include "tuner/ingest/row_ingest.h"

namespace ndtrain::tuner {
using namespace ndp;

// Where rows are kept is away for now, as a database that restarts; what threw it is done again
// later.
class SinkUnavailable : public Error {
 public:
  using Error::Error;
};

// Throws what went wrong; SinkUnavailable for kIo.
inline void demand(const Status& s) {
  if (s.code() == Code::kIo) throw SinkUnavailable(s.message());
  s.or_throw();
}
template <typename T>
T demand(Result<T> result) {
  demand(result.status());
  return std::move(result).or_throw();
}

class RowSink {
 public:
  virtual ~RowSink() = default;

  // What a store has: of all stores before open(), later of those that come back.
  virtual Status inventory(const RowIngest::Inventory&) { return {}; }
  // Once, before rows come: the photos of the job. Which of their rows are durable already.
  virtual Result<std::vector<uint64_t>> open(const Manifest& manifest) = 0;
  // The rows are durable on return, but for those that turn out to be of no use. kNoSpace and the
  // like: none of them may be counted on. Throws FsyncFailed.
  //
  // kIo from any of these: away for now; the same call is made again later.
  virtual Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) = 0;
};

}  // namespace ndtrain::tuner
