// The index of one group in memory: from a key to the place of its record. About 40 bytes per
// record.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "framework/core/hash.h"

namespace ndtrain::ndp {

struct Location {
  uint32_t segment = 0;
  uint32_t offset = 0;  // of the record header
  uint32_t length = 0;  // of the payload

  bool operator==(const Location&) const = default;
};

// Keys are SHA-256; the table keeps 16 bytes of each, so a reader compares the whole key with the
// record's own. Not thread-safe.
class KeyTable {
 public:
  using ShortKey = std::array<uint8_t, 16>;
  struct Entry {
    ShortKey key;
    Location at;
  };

  static ShortKey shorten(const Digest& key);

  size_t size() const { return entries_.size(); }
  std::optional<Location> find(const ShortKey& key) const;
  // Both return what was there before.
  std::optional<Location> insert(const ShortKey& key, const Location& at);
  std::optional<Location> erase(const ShortKey& key);

  const std::deque<Entry>& entries() const { return entries_; }  // in no particular order
  size_t memory_bytes() const;

 private:
  size_t home(const ShortKey& key) const;
  size_t slot_of(const ShortKey& key) const;  // where it is, or the free slot where it would be
  void grow();

  std::deque<Entry> entries_;    // dense: the table of slots holds positions in it
  std::vector<uint32_t> slots_;  // position + 1, 0 is free; linear probing; a power of two
};

}  // namespace ndtrain::ndp
