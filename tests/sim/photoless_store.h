// A PipeStore of very many photos that exist as digests alone, which follow from where they are in
// its inventory: the real state machine of its deliveries, and nothing in memory for each photo.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/core/hash.h"
#include "ndp/pipestore/row_delivery.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::sim {
using namespace ndp;

class PhotolessStore {
 public:
  static constexpr size_t kRow = 8;

  PhotolessStore(size_t number, size_t photos)
      : number_(number), photos_(photos), step_(UINT64_MAX / (photos + 1)) {}

  std::string name() const;
  wire::FromStore hello() const;
  // What it sends in answer to one message.
  std::vector<wire::FromStore> answer(const wire::ToStore& message);

 private:
  Digest photo(uint64_t place) const;  // rises with the place; no other store has it
  std::vector<wire::FromStore> inventory(const wire::Job& job) const;

  size_t number_, photos_;
  uint64_t step_;
  uint64_t serial_ = 0;                    // of the job
  std::unique_ptr<RowDelivery> delivery_;  // null: it was asked for nothing
};

}  // namespace ndtrain::sim
