#include "tuner/ingest/row_assignment.h"

#include <algorithm>
#include <iterator>

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Rendezvous hashing: the loss of one store moves only its own photos, and spreads them over the
// others.
uint32_t owner_of(const Manifest::Entry& photo, const std::vector<uint64_t>& names) {
  const auto hash = [&](uint32_t store) {
    return xxh3(photo.digest.data(), photo.digest.size(), names[store]);
  };
  return *std::ranges::max_element(photo.holders, {}, hash);
}

}  // namespace

RowAssignment::RowAssignment(const Manifest& manifest, const std::vector<std::string>& stores)
    : manifest_(manifest),
      stores_(stores.size()),
      rows_(manifest.size()),
      askers_(manifest.size(), Askers{kNobody, kNobody}, manifest.memory()) {
  std::vector<uint64_t> names;  // hashes
  for (const std::string& name : stores) names.push_back(xxh3(name.data(), name.size()));
  for (uint32_t run = 0; run <= manifest.runs(); ++run) {
    for (Store& store : stores_) store.runs.emplace_back(manifest.memory());
    open_.push_back(manifest.run(run).size());
    for (const bool alone : {true, false}) {
      for (const uint64_t number : manifest.run(run)) {
        const Manifest::Entry& photo = manifest.entry(number);
        if (photo.holders.empty() || (photo.holders.size() == 1) != alone) continue;
        const uint32_t owner = owner_of(photo, names);
        for (const uint32_t store : photo.holders) {
          Run& r = stores_[store].runs[run];
          (store == owner ? r.own : r.others).numbers.push_back(number);
        }
      }
    }
    for (Store& store : stores_) std::ranges::reverse(store.runs[run].others.numbers);
  }
}

void RowAssignment::arrive(uint32_t store) {
  give_up(store);
  stores_[store].here = true;
  changed_.insert(store);
}

void RowAssignment::leave(uint32_t store) {
  give_up(store);
  stores_[store].here = false;
}

void RowAssignment::give_up(uint32_t store) {
  if (stores_.at(store).outstanding == 0) return;
  for (const Run& run : stores_[store].runs) {
    std::vector<uint64_t> asked;
    for (const Queue* queue : {&run.own, &run.others}) {
      std::ranges::copy_if(queue->numbers, std::back_inserter(asked),
                           [&](uint64_t number) { return is_asked(store, number); });
    }
    std::ranges::sort(asked);
    for (const uint64_t number : asked) {
      if (release(store, number)) open_again(number);
    }
  }
}

void RowAssignment::ask(uint32_t store, uint64_t number) {
  Askers& askers = askers_[number];
  askers[askers[0] == kNobody ? 0 : 1] = store;
  ++stores_[store].outstanding;
}

// True when it was asked, and nobody is any more.
bool RowAssignment::release(uint32_t store, uint64_t number) {
  Askers& askers = askers_[number];
  if (!is_asked(store, number)) return false;
  if (askers[0] == store) askers[0] = askers[1];
  askers[1] = kNobody;
  --stores_[store].outstanding;
  changed_.insert(store);
  if (askers[0] == kNobody) return true;
  if (!rows_[number]) changed_for_holders(number);  // a second one may be asked
  return false;
}

absl::InlinedVector<uint32_t, 2> RowAssignment::holders(uint64_t number) const {
  absl::InlinedVector<uint32_t, 2> all = manifest_.entry(number).holders;
  const auto later = later_.find(number);
  if (later != later_.end()) all.insert(all.end(), later->second.begin(), later->second.end());
  return all;
}

// What its run was closed without stays out.
void RowAssignment::hold(uint32_t store, std::span<const uint64_t> numbers) {
  for (const uint64_t number : numbers) {
    const auto before = holders(number);
    const bool knows = std::ranges::find(before, store) != before.end();
    if (knows || rows_[number] || unreadable_.contains(number)) continue;
    later_[number].push_back(store);
    stores_.at(store).runs[manifest_.entry(number).run].others.numbers.push_back(number);
    changed_.insert(store);
  }
}

void RowAssignment::changed_for_holders(uint64_t number) {
  const auto all = holders(number);
  changed_.insert(all.begin(), all.end());
}

std::vector<uint32_t> RowAssignment::take_changed() {
  std::vector<uint32_t> stores(changed_.begin(), changed_.end());
  changed_.clear();
  return stores;
}

void RowAssignment::open_again(uint64_t number) {
  const Manifest::Entry& photo = manifest_.entry(number);
  for (const uint32_t store : holders(number)) {
    if (can(store, number)) stores_[store].runs[photo.run].again.push_back(number);
  }
  changed_for_holders(number);
}

void RowAssignment::take_from(Queue& queue, uint32_t store, size_t most,
                              std::vector<uint64_t>& numbers) {
  while (queue.next < queue.numbers.size() && numbers.size() < most) {
    const uint64_t number = queue.numbers[queue.next++];
    if (!waits(store, number)) continue;
    ask(store, number);
    numbers.push_back(number);
  }
}

std::vector<RowAssignment::Share> RowAssignment::take(uint32_t store, size_t most) {
  return take(store, most, false);
}

std::vector<RowAssignment::Share> RowAssignment::take_own(uint32_t store, size_t most) {
  return take(store, most, true);
}

std::vector<RowAssignment::Share> RowAssignment::take(uint32_t store, size_t most, bool own_alone) {
  std::vector<Share> shares;
  for (uint32_t run = 0; run < open_.size() && most > 0; ++run) {
    Run& r = stores_.at(store).runs[run];
    Share share{run, {}};
    while (!r.again.empty() && share.numbers.size() < most) {
      const uint64_t number = r.again.back();
      r.again.pop_back();
      if (!waits(store, number)) continue;
      ask(store, number);
      share.numbers.push_back(number);
    }
    take_from(r.own, store, most, share.numbers);
    if (!own_alone) take_from(r.others, store, most, share.numbers);
    if (share.numbers.empty()) continue;
    most -= share.numbers.size();
    std::ranges::sort(share.numbers);
    shares.push_back(std::move(share));
  }
  return shares;
}

// Those of a run that another was asked for, and nobody else, by who that is.
std::map<uint32_t, std::vector<uint64_t>> RowAssignment::asked_of_others(uint32_t store,
                                                                         uint32_t run) const {
  std::map<uint32_t, std::vector<uint64_t>> others;
  const Run& r = stores_.at(store).runs[run];
  for (const Queue* queue : {&r.own, &r.others}) {
    for (const uint64_t number : queue->numbers) {
      const Askers& askers = askers_[number];
      if (askers[0] == kNobody || askers[0] == store || askers[1] != kNobody) continue;
      if (can(store, number)) others[askers[0]].push_back(number);
    }
  }
  return others;
}

// Of the first run that lacks some, half of what the store with the most of them was asked for: the
// half that it comes to last.
RowAssignment::Share RowAssignment::take_second(uint32_t store, size_t most) {
  for (uint32_t run = 0; run < open_.size() && most > 0; ++run) {
    std::vector<uint64_t> longest;
    for (auto& [other, numbers] : asked_of_others(store, run)) {
      if (numbers.size() > longest.size()) longest = std::move(numbers);
    }
    if (longest.empty()) continue;
    std::ranges::sort(longest);
    const size_t half = std::min(most, (longest.size() + 1) / 2);
    Share share{run, {longest.end() - static_cast<int64_t>(half), longest.end()}};
    for (const uint64_t number : share.numbers) ask(store, number);
    return share;
  }
  return {};
}

bool RowAssignment::mark_durable(uint64_t number) {
  if (rows_.at(number)) return false;
  rows_[number] = true;
  dropped_.erase(number);
  for (const uint32_t store : Askers(askers_[number])) {
    if (store != kNobody) (void)release(store, number);
  }
  // Someone could read it after all: a copy may have been mended.
  if (unreadable_.erase(number) == 0) --open_[manifest_.entry(number).run];
  return true;
}

void RowAssignment::take_back(uint64_t number, uint32_t store) {
  if (release(store, number)) dropped_.insert(number);
}

void RowAssignment::cannot_read(uint64_t number, uint32_t store, std::string reason) {
  const Manifest::Entry& photo = manifest_.entry(number);
  if (rows_[number] || !failed_.insert({number, store}).second) return;
  const bool nobody = release(store, number);
  const auto all = holders(number);
  if (std::ranges::any_of(all, [&](uint32_t s) { return can(s, number); })) {
    if (dropped_.erase(number) > 0 || nobody) open_again(number);
    return;
  }
  if (unreadable_.emplace(number, std::move(reason)).second) --open_[photo.run];
}

}  // namespace ndtrain::tuner
