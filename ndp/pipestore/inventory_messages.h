// A store's inventory as it is said to the Tuner: docs/wire.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ndp/pipestore/row_producer.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::ndp {

// What a job asks of each photo besides its digest and label.
struct InventoryDetails {
  bool paths = false;
  std::span<const std::optional<uint64_t>> hashes = {};  // of each, or of none
};

// `about`, where it says something, is a message of its own, the first; photos follow, a few
// thousand in each.
std::vector<wire::FromStore> inventory_messages(uint64_t job, const StoreInventory& inventory,
                                                wire::Inventory about,
                                                const InventoryDetails& details);

}  // namespace ndtrain::ndp
