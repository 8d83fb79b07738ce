#include "ndp/store/key_table.h"

#include <algorithm>
#include <utility>

namespace ndtrain::ndp {

KeyTable::ShortKey KeyTable::shorten(const Digest& key) {
  ShortKey short_key;
  std::copy_n(key.begin(), short_key.size(), short_key.begin());
  return short_key;
}

size_t KeyTable::home(const ShortKey& key) const {
  return xxh3(key.data(), key.size()) & (slots_.size() - 1);
}

size_t KeyTable::slot_of(const ShortKey& key) const {
  size_t slot = home(key);
  while (slots_[slot] != 0 && entries_[slots_[slot] - 1].key != key) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

std::optional<Location> KeyTable::find(const ShortKey& key) const {
  if (slots_.empty()) return {};
  const uint32_t position = slots_[slot_of(key)];
  if (position == 0) return {};
  return entries_[position - 1].at;
}

std::optional<Location> KeyTable::insert(const ShortKey& key, const Location& at) {
  if ((entries_.size() + 1) * 4 > slots_.size() * 3) grow();
  const size_t slot = slot_of(key);
  if (slots_[slot] != 0) return std::exchange(entries_[slots_[slot] - 1].at, at);
  entries_.push_back({key, at});
  slots_[slot] = static_cast<uint32_t>(entries_.size());
  return {};
}

std::optional<Location> KeyTable::erase(const ShortKey& key) {
  if (slots_.empty()) return {};
  size_t hole = slot_of(key);
  const uint32_t position = slots_[hole];
  if (position == 0) return {};
  const Location old = entries_[position - 1].at;

  const size_t mask = slots_.size() - 1;
  slots_[hole] = 0;
  // Whatever stood after the hole because its own place was taken moves up (Knuth, 6.4 algorithm
  // R).
  for (size_t slot = (hole + 1) & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const size_t wanted = home(entries_[slots_[slot] - 1].key);
    if (((slot - wanted) & mask) >= ((slot - hole) & mask)) {
      slots_[hole] = std::exchange(slots_[slot], 0);
      hole = slot;
    }
  }
  if (position != entries_.size()) {
    slots_[slot_of(entries_.back().key)] = position;
    entries_[position - 1] = entries_.back();
  }
  entries_.pop_back();
  return old;
}

void KeyTable::grow() {
  slots_.assign(std::max<size_t>(16, slots_.size() * 2), 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    slots_[slot_of(entries_[i].key)] = static_cast<uint32_t>(i + 1);
  }
}

size_t KeyTable::memory_bytes() const {
  // A deque's blocks hold 512 bytes each and are known by one pointer.
  constexpr size_t kPerBlock = 512 / sizeof(Entry);
  const size_t blocks = entries_.size() / kPerBlock + 1;
  return blocks * (512 + sizeof(void*)) + slots_.size() * sizeof(uint32_t);
}

}  // namespace ndtrain::ndp
