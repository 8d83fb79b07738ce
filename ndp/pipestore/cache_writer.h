// Keeps crops and features of photos that were just labelled, behind the back of whoever waits for
// the label. They can be made again, so what comes faster than the disk takes it is dropped.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "ndp/pipestore/online_labeler.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

class CacheWriter {
 public:
  CacheWriter(SegmentStore& cache, bool compress_crops, size_t most)
      : cache_(cache), compress_crops_(compress_crops), most_(most) {}
  ~CacheWriter();

  void put(const Digest& photo, std::shared_ptr<OnlineModel> model,
           OnlineLabeler::Labelled labelled);
  int64_t dropped() const;

 private:
  struct Item {
    Digest photo;
    std::shared_ptr<OnlineModel> model;
    OnlineLabeler::Labelled labelled;
  };
  void run();
  void write(const Item& item);

  SegmentStore& cache_;
  const bool compress_crops_;
  const size_t most_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable ready_;
  std::deque<Item> items_;
  int64_t dropped_ = 0;
  bool stopping_ = false, full_ = false;
  std::jthread thread_{[this] { run(); }};
};

}  // namespace ndtrain::ndp
