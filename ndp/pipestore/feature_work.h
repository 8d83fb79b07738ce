// What a PipeStore still has to extract for one job, within one session: photos are wanted, taken
// up in batches, sent in chunks as far as the window allows, acknowledged. A pure state machine:
// the caller extracts and sends as it is told. One thread. docs/wire.md describes the messages.
//
// Nothing of it outlives a session: after a break the Tuner says anew what it lacks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain {

class FeatureWork {
 public:
  // A row larger than a chunk travels alone.
  static constexpr size_t kChunkBytes = size_t{256} << 10;

  struct Photo {
    uint64_t number = 0;  // in the manifest
    uint64_t place = 0;   // in the inventory that this store sent
    bool operator==(const Photo&) const = default;
  };
  // Photos to extract, all of one run; their rows go to done() in this order.
  struct Batch {
    uint32_t run = 0;
    std::vector<Photo> photos;
  };
  struct BadPhoto {
    uint64_t number = 0;
    std::string path, reason;
  };

  // `photos` is the size of the inventory; `window` bounds the bytes of rows that are taken up and
  // not acknowledged (one batch may always be).
  FeatureWork(uint64_t job, uint64_t photos, size_t row_bytes, uint64_t window);

  // kCorrupt when the message contradicts itself.
  Status wanted(const wire::Wanted& message);

  // The next photos, at most `most`, validation first, then run by run, each in the order of the
  // manifest. Nullopt when there are none, or the window is full.
  std::optional<Batch> next(size_t most);

  // A batch is extracted: rows of the photos that could be read, one after the other. What to send,
  // in order; a RunDone follows the last photo that is wanted of a run.
  std::vector<wire::FromStore> done(const Batch& batch, std::string_view rows,
                                    const std::vector<BadPhoto>& bad);

  void acknowledged(const wire::Ack& message);  // one it does not know is ignored

  bool idle() const { return queued_.empty() && taken_up_ == 0 && unacknowledged_.empty(); }
  uint64_t unacknowledged_bytes() const { return bytes_; }

 private:
  struct Run {
    std::map<uint64_t, uint64_t> queue;  // number -> place
    uint64_t outside = 0;                // taken up, not done
    uint64_t sent = 0, bad = 0;
  };

  uint64_t job_, photos_;
  size_t row_bytes_;
  uint64_t window_;
  std::map<uint32_t, Run> runs_;
  std::set<uint32_t> queued_;  // runs with something in their queue
  uint64_t taken_up_ = 0;      // photos
  uint64_t bytes_ = 0;         // of rows taken up or sent, and not acknowledged
  uint64_t chunks_ = 0;
  std::map<uint64_t, uint64_t> unacknowledged_;  // chunk -> bytes
};

}  // namespace ndtrain
