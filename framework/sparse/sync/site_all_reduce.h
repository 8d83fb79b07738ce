// Sums over sites: leaders add up what they have, and tell their sites.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "framework/comm/communicator.h"
#include "framework/core/dtype.h"
#include "framework/sparse/sync/sites.h"

namespace ndtrain {

// All ranks make the same calls, by one thread each. Keeps a reference.
class SiteAllReduce {
 public:
  SiteAllReduce(Communicator& communicator, const Sites& sites)
      : communicator_(communicator), sites_(sites) {}

  // Ranks of a site give the same; `data` becomes the sum of what each site gives, in f32 in the
  // order of a tree of the sites, or rounded to `wire` where it travels between them (comm_op.h).
  // It is this object's until end().
  void begin(std::span<float> data, std::string name, DType wire);
  // Of what was begun first and has not ended. Waits. Throws RankLost.
  void end();

  // To each other site, of all calls; none of a rank that does not lead.
  int64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Call {
    std::span<float> data;
    std::string name;
    Communicator::Op sum = 0;  // of leaders
  };
  Communicator& communicator_;
  const Sites sites_;
  std::deque<Call> calls_;
  int64_t sent_bytes_ = 0;
};

}  // namespace ndtrain
