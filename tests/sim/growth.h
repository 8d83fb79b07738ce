// What a Tuner's work grows with: the real service in virtual time, a number of PipeStores that
// hold photos which exist as digests alone, and a job that asks a row of each of them.
#pragma once

#include <cstdint>
#include <string>

#include "framework/core/fs.h"
#include "ndp/store/mapped_memory.h"

namespace ndtrain::sim {
using namespace ndp;

struct GrowthSetting {
  size_t stores = 100;
  size_t photos = 1000;  // of each store
  double idle_s = 30;    // of heartbeats alone, once all stores are there
  // In place of one job of all stores: jobs of some of them each, which are cancelled when all have
  // said what they hold.
  bool inventories_alone = false;
  int64_t on_heap = MappedMemory::kOnHeap;  // of large columns, in bytes
};

// What one part took the Tuner. A turn of its loop has one event while the stores are idle, and as
// many as wait, up to the loop's own limit, while they all talk.
struct GrowthCost {
  double seconds = 0;                             // computing
  uint64_t messages = 0, bytes = 0;               // both ways
  uint64_t files_written = 0, bytes_written = 0;  // of its state
  int64_t heap = 0, peak_heap = 0;                // bytes more than before all stores came
  int64_t peak_mapped = 0;                        // bytes of columns in files
};

struct Growth {
  GrowthCost connect;      // all stores arrive
  GrowthCost idle;         // heartbeats
  GrowthCost inventory;    // a job begins: until its manifest is kept, or all said what they hold
  GrowthCost rows;         // until it is done
  GrowthCost after;        // heartbeats again
  GrowthCost leave;        // all stores leave
  uint64_t delivered = 0;  // rows that became durable
  int64_t resident = 0;    // bytes of memory that the process had at most
  std::string failure;     // of the job; "": it is done
};

// `directory`: of the Tuner's state, empty; where `fs` is not the real one, all is on the heap.
Growth grow(Fs& fs, const std::string& directory, const GrowthSetting& setting);

}  // namespace ndtrain::sim
