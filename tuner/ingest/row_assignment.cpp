#include "tuner/ingest/row_assignment.h"

#include <algorithm>
#include <optional>

namespace ndtrain::tuner {
using namespace ndp;

RowAssignment::RowAssignment(const Manifest& manifest, std::vector<std::string> stores)
    : manifest_(manifest), here_(stores.size()), rows_(manifest.size()) {
  for (const std::string& name : stores) names_.push_back(xxh3(name.data(), name.size()));
  for (uint32_t run = 0; run <= manifest.runs(); ++run) {
    open_.push_back(manifest.run(run).size());
  }
}

void RowAssignment::arrive(uint32_t store) { here_.at(store) = true; }
void RowAssignment::leave(uint32_t store) { here_.at(store) = false; }

// Rendezvous hashing: each photo goes to the holder with the highest hash of both, so that the loss
// of one store moves only its own photos, and spreads them over the others.
std::optional<uint32_t> RowAssignment::assignee(uint64_t number) const {
  if (rows_.at(number)) return std::nullopt;
  const Manifest::Entry& photo = manifest_.entry(number);
  std::optional<uint32_t> best;
  uint64_t highest = 0;
  for (uint32_t store : photo.holders) {
    if (!here_[store] || !can(store, number)) continue;
    const uint64_t hash = xxh3(photo.digest.data(), photo.digest.size(), names_[store]);
    if (!best || hash > highest) {
      best = store;
      highest = hash;
    }
  }
  return best;
}

std::vector<uint64_t> RowAssignment::assigned(uint32_t store, uint32_t run) const {
  std::vector<uint64_t> numbers;
  for (uint64_t number : manifest_.run(run)) {
    if (assignee(number) == store) numbers.push_back(number);
  }
  return numbers;
}

bool RowAssignment::mark_durable(uint64_t number) {
  if (rows_.at(number)) return false;
  rows_[number] = true;
  // Someone could read it after all: a copy may have been mended.
  if (unreadable_.erase(number) == 0) --open_[manifest_.entry(number).run];
  return true;
}

void RowAssignment::cannot_read(uint64_t number, uint32_t store, std::string reason) {
  const Manifest::Entry& photo = manifest_.entry(number);
  if (rows_[number] || !failed_.insert({number, store}).second) return;
  if (std::ranges::any_of(photo.holders, [&](uint32_t s) { return can(s, number); })) return;
  if (unreadable_.emplace(number, std::move(reason)).second) --open_[photo.run];
}

bool RowAssignment::complete(uint32_t run) const { return open_.at(run) == 0; }

std::vector<uint64_t> RowAssignment::orphans(uint32_t run) const {
  std::vector<uint64_t> numbers;
  for (uint64_t number : manifest_.run(run)) {
    if (!rows_[number] && !unreadable_.contains(number) && !assignee(number)) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

}  // namespace ndtrain::tuner
