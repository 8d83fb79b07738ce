// Photos that people deleted, by the Tuner's list of them: this store lets go of each, and
// remembers up to where it has heard the list. One thread, the service's; photos are deleted on the
// lane.
#pragma once

#include <functional>
#include <span>

#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "framework/core/lanes.h"
#include "ndp/wire/tuner_connection.h"

namespace ndtrain::ndp {

class DeletionFollower {
 public:
  struct Ports {
    Fs& fs;
    StateDirectory& state;
    Lanes& lanes;
    TunerConnection& tuner;
    std::function<Status(std::span<const Digest>)> forget = {};  // durable on return; on the lane
  };

  explicit DeletionFollower(Ports ports);

  void take(const wire::Deletions& message);

 private:
  void deleted(LinkId link, const wire::Deletions& message, const Status& status);

  const Ports ports_;
};

}  // namespace ndtrain::ndp
