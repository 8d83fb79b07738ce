// How full the queues of an engine's ring are, in batches, for who watches it. From any thread.
#pragma once

#include <atomic>
#include <cstddef>

namespace ndtrain::ndp {

struct RingLevels {
  std::atomic<size_t> loaded = 0;  // photos are read, and wait to be preprocessed
  std::atomic<size_t> ready = 0;   // preprocessed, and wait to be inferred
};

}  // namespace ndtrain::ndp
