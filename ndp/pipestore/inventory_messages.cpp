#include "ndp/pipestore/inventory_messages.h"

#include <map>
#include <string>
#include <utility>

#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kInventoryBytes = size_t{1} << 20;  // of one message, about

// As many as one more such message would hold.
void name_unreadable(const StoreInventory& inventory, wire::Inventory& to) {
  size_t bytes = 0;
  for (const QuarantinedPhoto& p : inventory.unreadable_files) {
    bytes += p.path.size() + p.reason.size();
    if (bytes > kInventoryBytes) return;
    wire::Unreadable& file = *to.add_unreadable_files();
    file.set_path(wire::as_text(p.path));
    file.set_reason(wire::as_text(p.reason));
  }
}

void add_hash(std::optional<uint64_t> hash, wire::Inventory& to) {
  const uint64_t bits = hash.value_or(0);
  to.mutable_hashes()->append(reinterpret_cast<const char*>(&bits), sizeof bits);
  to.mutable_hashed()->push_back(hash ? '\1' : '\0');
}

}  // namespace

std::vector<wire::FromStore> inventory_messages(uint64_t job, const StoreInventory& inventory,
                                                wire::Inventory about,
                                                const InventoryDetails& details) {
  std::vector<wire::FromStore> messages;
  std::map<std::string, uint32_t> names;
  const std::vector<StorePhoto>& photos = inventory.photos;
  if (about.ByteSizeLong() > 0) {
    about.set_job(job);
    *messages.emplace_back().mutable_inventory() = std::move(about);
  }
  size_t at = 0;
  do {
    wire::Inventory& i = *messages.emplace_back().mutable_inventory();
    i.set_job(job);
    for (size_t bytes = 0; at < photos.size() && bytes < kInventoryBytes; ++at) {
      const StorePhoto& p = photos[at];
      i.mutable_digests()->append(p.digest.begin(), p.digest.end());
      i.mutable_sources()->push_back(static_cast<char>(p.source));
      uint32_t label = 0;
      if (!p.label.empty()) {
        const auto [name, fresh] = names.emplace(p.label, static_cast<uint32_t>(names.size()) + 1);
        if (fresh) i.add_names(p.label);
        label = name->second;
      }
      i.add_labels(label);
      if (details.paths) i.add_paths(p.path);
      if (!details.hashes.empty()) add_hash(details.hashes[at], i);
      bytes += sizeof(Digest) + 2 + (details.paths ? p.path.size() + 2 : 0) + p.label.size() +
               (details.hashes.empty() ? 0 : sizeof(uint64_t) + 1);
    }
    i.set_last(at == photos.size());
    if (i.last()) {
      uint64_t bytes = 0;
      for (const StorePhoto& p : photos) bytes += static_cast<uint64_t>(p.bytes);
      i.set_photo_bytes(bytes);
      i.set_unreadable(inventory.unreadable);
      i.set_survey_seconds(inventory.seconds);
      name_unreadable(inventory, i);
    }
  } while (at < photos.size());
  return messages;
}

}  // namespace ndtrain::ndp
