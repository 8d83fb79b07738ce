// Ranks of which one cannot be dialled, as behind a router that lets nobody in: both dial rank 0,
// which passes on what one sends to the other.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "framework/comm/rendezvous.h"
#include "framework/core/net.h"

namespace ndtrain {

// At rank 0, while the others talk. Two threads for each pair move the bytes as they come.
class RankRelay {
 public:
  // Between ranks that have met `place`, rank 0's, at this listener (RankPlace::listen). Who is no
  // such rank is told so.
  RankRelay(std::unique_ptr<Listener> listener, RankPlace place);
  ~RankRelay();  // hangs up on all

  int64_t passed_on() const;  // bytes

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::jthread thread_;
};

}  // namespace ndtrain
