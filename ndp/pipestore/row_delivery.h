// What a PipeStore still has to deliver for one job, within one session: rows of photos are wanted,
// taken up in batches, sent in chunks as far as the window allows, acknowledged. A pure state
// machine: the caller makes the rows and sends as it is told. One thread. docs/wire.md describes
// the messages.
//
// Nothing of it outlives a session: after a break the Tuner says anew what it lacks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::ndp {

class RowDelivery {
 public:
  // A row larger than a chunk travels alone, one larger than kWholeRow in pieces.
  static constexpr size_t kChunkBytes = size_t{256} << 10;
  // Of the rows of one batch, about, where the window has room for less; one row always.
  static constexpr size_t kBatchBytes = size_t{256} << 20;

  struct Photo {
    uint64_t number = 0;  // in the manifest
    uint64_t place = 0;   // in the inventory that this store sent
    bool operator==(const Photo&) const = default;
  };
  // Photos of one run; their rows go to done() in this order.
  struct Batch {
    uint32_t run = 0;
    std::vector<Photo> photos;
  };
  struct BadRow {
    uint64_t number = 0;
    std::string path, reason;
  };

  // What a row takes: exactly, or on average where rows differ in size. Rows of runs from 1 on are
  // `views` times as large.
  struct RowSize {
    size_t bytes = 0;
    bool varies = false;
    size_t views = 1;

    size_t of(uint32_t run) const { return run == 0 ? bytes : bytes * views; }
  };

  // `photos` is the size of the inventory; `window` bounds the bytes of rows that are taken up and
  // not acknowledged (one batch may always be, or one row where rows differ in size). Throws Error
  // for rows of no bytes.
  RowDelivery(uint64_t job, uint64_t photos, RowSize row, uint64_t window);

  // kCorrupt when the message contradicts itself; kTooLarge when more photos would be wanted at
  // once than there are.
  Status wanted(const wire::Wanted& message);

  // The next photos, at most `most`, or so many views where there is more than one photo;
  // validation first, then run by run, each in the order of the manifest. Nullopt when there are
  // none, or the window is full.
  std::optional<Batch> next(size_t most);

  // A batch is ready: the rows of the photos that could be read, in order. What to send, in order;
  // a RunDone follows the last photo that is wanted of a run. `busy`: seconds it took.
  std::vector<wire::FromStore> done(const Batch& batch, std::span<const std::string> rows,
                                    const std::vector<BadRow>& bad, double busy = 0);

  void acknowledged(const wire::Ack& message);  // one it does not know is ignored

  // Photos of the run that next() goes on with.
  size_t waiting() const { return queued_.empty() ? 0 : runs_.at(*queued_.begin()).queue.size(); }
  bool idle() const { return queued_.empty() && taken_up_ == 0 && unacknowledged_.empty(); }
  const RowSize& row() const { return row_; }
  uint64_t unacknowledged_bytes() const { return bytes_; }

 private:
  wire::Rows& begin_chunk(uint32_t run, std::vector<wire::FromStore>& out);
  void end_chunk(wire::Rows& chunk, std::span<const uint64_t> numbers);
  void check_size(uint32_t run, std::string_view row) const;
  void send_pieces(uint32_t run, uint64_t number, std::string_view row,
                   std::vector<wire::FromStore>& out);

  struct Run {
    std::map<uint64_t, uint64_t> queue;  // number -> place
    uint64_t outside = 0;                // taken up, not done
    uint64_t sent = 0, bad = 0;
    double busy = 0;
  };

  uint64_t job_, photos_;
  RowSize row_;
  uint64_t window_;
  std::map<uint32_t, Run> runs_;
  std::set<uint32_t> queued_;  // runs with something in their queue
  uint64_t waiting_ = 0;       // photos in the queues
  uint64_t taken_up_ = 0;      // photos
  uint64_t bytes_ = 0;         // of rows taken up or sent, and not acknowledged
  uint64_t chunks_ = 0;
  std::map<uint64_t, uint64_t> unacknowledged_;  // chunk -> bytes
};

}  // namespace ndtrain::ndp
