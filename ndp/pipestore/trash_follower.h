// Follows the Tuner's trash: what it says counts when its last part is there, and is durable then.
// One thread, the service's; it is kept on the lane, behind the deletions that came before it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "framework/core/lanes.h"
#include "ndp/pipestore/store_trash.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/tuner_connection.h"

namespace ndtrain::ndp {

class TrashFollower {
 public:
  struct Ports {
    Lanes& lanes;
    TunerConnection& tuner;
    StoreTrash* trash = nullptr;  // null: it is not followed
    // What is in it has changed; `back`: some may be out of it. On the service's thread.
    std::function<void(bool back)> changed = {};
    // Photos of parts that belong together; a Tuner that says more loses its session.
    size_t most = wire::kMostPhotos;
  };
  explicit TrashFollower(Ports ports);

  void take(const wire::Trash& message);
  void session_over();

 private:
  void kept(LinkId link, bool some_back, const Status& status);

  const Ports ports_;
  std::vector<Digest> photos_, restored_;  // of the parts that have come
};

}  // namespace ndtrain::ndp
