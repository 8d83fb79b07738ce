// Lines of the stores' upload logs on their way into the label database: each is looked at when it
// comes, and each store has a queue of its own, so that none waits for what another has sent. What
// stores say of photos (that one was deleted, or what it shows) is taken at a limited rate; the
// rest of that store's queue waits behind it. A pure state machine; one thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ndp/wire/link.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::tuner {
using namespace ndp;

struct UploadLine {
  uint64_t sequence = 0;
  wire::Upload upload = {};
  std::string refused = {};  // why it is not taken; "": it is
};

// A person's word about a photo, as the store says.
inline bool is_statement(const wire::Upload& u) { return u.removed() || !u.truth().empty(); }

// The next lines of one session of a store.
struct UploadBatch {
  std::string store;
  LinkId link = 0;
  std::vector<UploadLine> lines;
  bool judged = false;  // whether the store may say this of these photos
};

class UploadQueues {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr size_t kAtOnce = 4096;                      // lines of a batch
  static constexpr size_t kWaitingBytes = size_t{8} << 20;     // of one store; its window is 1 MiB
  static constexpr double kStatements = 1000, kPerSecond = 5;  // at once, and from then on

  // False, and nothing is taken: the store has more waiting than it may.
  bool put(const std::string& store, LinkId link, const wire::Uploads& message);

  // The batch that is out: the one whose turn it is, unless one is out already. Null: there is
  // none, or all have to wait. `counts`: whether a line takes of the store's rate.
  UploadBatch* next(Time now, const std::function<bool(const wire::Upload&)>& counts);
  UploadBatch* out() { return out_ ? &*out_ : nullptr; }
  void done();              // the batch that is out is durable
  void failed(Time until);  // and may come again then
  // When next() may have one that it has not now; Time::max() for never.
  Time wakes() const;

 private:
  struct Waiting {
    LinkId link = 0;
    size_t bytes = 0;
    UploadLine line;
  };
  struct Queue {
    std::deque<Waiting> waiting;
    size_t bytes = 0;                  // of those
    std::optional<UploadBatch> again;  // a batch that failed
    Time not_before{0};
    double statements = kStatements;  // that it may make, as of
    Time counted{0};
  };

  static UploadBatch take(const std::string& store, Queue& queue, Time now,
                          const std::function<bool(const wire::Upload&)>& counts);

  std::map<std::string, Queue> queues_;
  std::optional<UploadBatch> out_;
  std::string last_;  // whose turn it was
};

}  // namespace ndtrain::tuner
