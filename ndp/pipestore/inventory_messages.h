// A store's inventory as it is said to the Tuner: docs/wire.md.
#pragma once

#include <vector>

#include "ndp/pipestore/row_producer.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::ndp {

// `about`, where it says something, is a message of its own, the first; photos follow, a few
// thousand in each. `paths`: the Tuner asks for them.
std::vector<wire::FromStore> inventory_messages(uint64_t job, const StoreInventory& inventory,
                                                wire::Inventory about, bool paths);

}  // namespace ndtrain::ndp
