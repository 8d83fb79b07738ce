#include "tuner/ingest/manifest.h"

#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <tuple>

#include "framework/runtime/backend.h"
#include "ndp/jobs/photo_duplicates.h"
#include "ndp/photos/dataset.h"
#include "ndp/similarity/near_duplicates.h"
#include "tuner/ingest/digest_search.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Who says that a photo is there: a store, by where it says it.
struct Holder {
  uint32_t store = 0;
  size_t place = 0;
};

// The photos of all stores in byte order, without looking at more than one of each store at a time.
class EachPhoto {
 public:
  explicit EachPhoto(std::span<const SharedClaims> stores) : stores_(stores) {
    for (uint32_t s = 0; s < stores.size(); ++s) wait({s, 0});
  }

  // Its holders, rising; none at the end.
  std::vector<Holder> next() {
    std::vector<Holder> holders;
    while (!heads_.empty() &&
           (holders.empty() || heads_.top().digest == digest_of(holders.front()))) {
      const Holder h = heads_.top().holder;
      heads_.pop();
      holders.push_back(h);
      wait({h.store, h.place + 1});
    }
    return holders;
  }
  const Digest& digest_of(const Holder& h) const { return stores_[h.store]->digest(h.place); }

 private:
  struct Head {
    Digest digest;
    Holder holder;
    bool operator<(const Head& other) const {  // the first is on top
      return std::tie(other.digest, other.holder.store) < std::tie(digest, holder.store);
    }
  };
  void wait(Holder h) {
    if (h.place < stores_[h.store]->size()) heads_.push({digest_of(h), h});
  }

  std::span<const SharedClaims> stores_;
  std::priority_queue<Head> heads_;
};

// All names that stores and people may say, numbered in byte order.
class Names {
 public:
  Names(std::span<const SharedClaims> stores, std::span<const PhotoClaim> truths) {
    for (const SharedClaims& s : stores) {
      for (const std::string& name : s->names()) numbers_.emplace(name, 0);
    }
    for (const PhotoClaim& t : truths) numbers_.emplace(t.label, 0);
    for (auto& [name, number] : numbers_) {
      number = static_cast<uint32_t>(all_.size());
      all_.push_back(name);
    }
    for (const SharedClaims& s : stores) {
      std::vector<uint32_t>& of_store = of_stores_.emplace_back();
      for (const std::string& name : s->names()) of_store.push_back(numbers_.at(name));
    }
  }

  uint32_t of(const std::string& name) const { return numbers_.at(name); }
  uint32_t of(uint32_t store, uint32_t label) const { return of_stores_[store][label - 1]; }
  const std::string& name(uint32_t number) const { return all_[number]; }
  size_t size() const { return all_.size(); }

 private:
  std::map<std::string, uint32_t> numbers_;
  std::vector<std::string> all_;
  std::vector<std::vector<uint32_t>> of_stores_;  // of each label of each store
};

// What is said that one photo shows. The best come first.
struct SaidLabel {
  int rank = 0;  // of the source, the highest first
  uint32_t name = 0;
  int64_t time = 0;  // the last first

  SaidLabel(LabelSource source, uint32_t n, int64_t t)
      : rank(-static_cast<int>(source)), name(n), time(t) {}
  bool operator<(const SaidLabel& o) const {
    return std::tie(rank, name, o.time) < std::tie(o.rank, o.name, time);
  }
};

// Makes the entries of a manifest; their labels are numbers of `names` until classes are known.
class EntryMaker {
 public:
  EntryMaker(std::span<const SharedClaims> stores, const ManifestRules& rules)
      : stores_(stores), rules_(rules), names_(stores, rules.truths), said_(names_.size()) {
    for (const PhotoClaim& t : rules.truths) truths_.push_back(&t);
    std::ranges::stable_sort(truths_, {}, &PhotoClaim::digest);
    truth_ = truths_.begin();
  }

  struct Made {
    Manifest::Entries entries;
    std::pmr::vector<std::optional<uint64_t>> hashes;  // of entries, where they are grouped
    std::vector<Manifest::Conflict> conflicts = {};
    uint64_t unlabelled = 0;
  };
  Made make() {
    EachPhoto photos(stores_);
    for (auto holders = photos.next(); !holders.empty(); holders = photos.next()) {
      const Digest& digest = photos.digest_of(holders.front());
      if (!rules_.leave_out || !rules_.leave_out(digest)) add(digest, holders);
    }
    return std::move(made_);
  }

  const Names& names() const { return names_; }
  bool is_said(uint32_t name) const { return said_[name]; }

 private:
  void add(const Digest& digest, std::span<const Holder> holders) {
    const std::vector<SaidLabel> labels = labels_of(digest, holders);
    for (const SaidLabel& l : labels) said_[l.name] = true;
    made_.unlabelled += labels.empty();
    if (labels.empty() && rules_.only_labelled) return;
    ManifestEntry& e = made_.entries.emplace_back(
        ManifestEntry{.digest = digest, .run = run_of(digest, rules_), .label = -1});
    for (const Holder& h : holders) {
      if (e.holders.empty() || e.holders.back() != h.store) e.holders.push_back(h.store);
    }
    if (rules_.group_duplicates) made_.hashes.push_back(hash_of(holders));
    if (labels.empty()) return;
    e.label = static_cast<int32_t>(labels.front().name);
    e.label_time = labels.front().time;
    add_conflict(labels);
  }

  std::vector<SaidLabel> labels_of(const Digest& digest, std::span<const Holder> holders) {
    std::vector<SaidLabel> labels;
    for (const Holder& h : holders) {
      const uint32_t label = stores_[h.store]->label(h.place);
      if (label == 0 || !rules_.holders_label) continue;
      labels.emplace_back(stores_[h.store]->source(h.place), names_.of(h.store, label),
                          stores_[h.store]->time(h.place));
    }
    while (truth_ != truths_.end() && (*truth_)->digest < digest) ++truth_;
    for (; truth_ != truths_.end() && (*truth_)->digest == digest; ++truth_) {
      labels.emplace_back((*truth_)->source, names_.of((*truth_)->label), (*truth_)->time);
    }
    std::ranges::sort(labels, [](const SaidLabel& a, const SaidLabel& b) { return a < b; });
    return labels;
  }

  std::optional<uint64_t> hash_of(std::span<const Holder> holders) const {
    for (const Holder& h : holders) {
      if (const auto hash = stores_[h.store]->hash(h.place)) return hash;
    }
    return {};
  }

  void add_conflict(std::span<const SaidLabel> labels) {
    std::set<uint32_t> different;
    for (const SaidLabel& l : labels) different.insert(l.name);
    if (different.size() < 2) return;
    Manifest::Conflict& c = made_.conflicts.emplace_back();
    c.number = made_.entries.size() - 1;
    for (const uint32_t name : different) c.labels.push_back(names_.name(name));
  }

  std::span<const SharedClaims> stores_;
  const ManifestRules& rules_;
  const Names names_;
  std::vector<bool> said_;  // of some photo
  std::vector<const PhotoClaim*> truths_;
  std::vector<const PhotoClaim*>::iterator truth_;
  Made made_{Manifest::Entries(rules_.memory), decltype(Made::hashes)(rules_.memory)};
};

std::vector<std::string> classes_of(const EntryMaker& entries, const ManifestRules& rules) {
  std::set<std::string> names;
  for (uint32_t n = 0; n < entries.names().size(); ++n) {
    if (entries.is_said(n)) names.insert(entries.names().name(n));
  }
  std::set<std::string> unknown = names;
  for (const std::string& name : rules.classes) unknown.erase(name);
  if (!rules.add_classes && !unknown.empty()) return {names.begin(), names.end()};
  std::vector<std::string> classes = rules.classes;
  classes.insert(classes.end(), unknown.begin(), unknown.end());
  return classes;
}

uint32_t training_run_of(const Digest& photo, const ManifestRules& rules) {
  return 1 + static_cast<uint32_t>(xxh3(photo.data(), photo.size(), rules.seed) % rules.runs);
}

std::vector<SharedClaims> shared(std::span<const std::vector<PhotoClaim>> inventories) {
  std::vector<SharedClaims> all;
  for (const std::vector<PhotoClaim>& claims : inventories) {
    all.push_back(std::make_shared<const PhotoClaims>(claims));
  }
  return all;
}

}  // namespace

uint32_t run_of(const Digest& photo, const ManifestRules& rules) {
  return in_validation(photo, rules.val_split) ? 0 : training_run_of(photo, rules);
}

Manifest::Manifest(std::span<const std::vector<PhotoClaim>> inventories, const ManifestRules& rules)
    : Manifest(shared(inventories), rules) {}

Manifest::Manifest(std::span<const SharedClaims> inventories, const ManifestRules& rules)
    : entries_(rules.memory) {
  if (rules.runs < 1) throw Error("a job has at least one run");
  EntryMaker maker(inventories, rules);
  EntryMaker::Made made = maker.make();
  entries_ = std::move(made.entries);
  conflicts_ = std::move(made.conflicts);
  unlabelled_ = made.unlabelled;
  classes_ = classes_of(maker, rules);
  std::map<std::string, int32_t> ids;
  for (const std::string& name : classes_) ids.emplace(name, static_cast<int32_t>(ids.size()));
  std::vector<int32_t> id_of(maker.names().size(), -1);
  for (uint32_t n = 0; n < id_of.size(); ++n) {
    if (maker.is_said(n)) id_of[n] = ids.at(maker.names().name(n));
  }
  for (Entry& e : entries_) {
    if (e.label >= 0) e.label = id_of[static_cast<size_t>(e.label)];
  }
  if (rules.group_duplicates) keep_together(made.hashes, rules);
  if (rules.choose) choose(rules.choose(entries_, classes_));
  number_runs(rules.runs);
}

void Manifest::number_runs(uint32_t runs) {
  for (uint32_t run = 0; run <= runs; ++run) runs_.emplace_back(memory());
  for (uint64_t number = 0; number < entries_.size(); ++number) {
    runs_[entries_[number].run].push_back(number);
  }
}

void Manifest::keep_together(std::span<const std::optional<uint64_t>> hashes,
                             const ManifestRules& rules) {
  std::vector<uint64_t> known;
  std::vector<size_t> numbers;  // that have them
  for (size_t n = 0; n < hashes.size(); ++n) {
    if (!hashes[n]) continue;
    known.push_back(*hashes[n]);
    numbers.push_back(n);
  }
  alike_.unhashed = hashes.size() - known.size();
  for (const std::vector<size_t>& group : groups_within(known, kAlikeBits, shared_threads())) {
    const uint32_t first = entries_[numbers[group.front()]].run;  // of the lowest digest
    ++alike_.groups;
    alike_.photos += group.size();
    for (const size_t i : group) {
      Entry& e = entries_[numbers[i]];
      if ((e.run == 0) == (first == 0)) continue;
      e.run = first == 0 ? 0 : training_run_of(e.digest, rules);
      ++alike_.moved;
    }
  }
}

void Manifest::choose(const std::vector<bool>& stays) {
  std::erase_if(conflicts_, [&](const Conflict& c) { return !stays.at(c.number); });
  auto conflict = conflicts_.begin();
  uint64_t number = 0;
  for (uint64_t n = 0; n < entries_.size(); ++n) {
    if (!stays.at(n)) continue;
    if (conflict != conflicts_.end() && conflict->number == n) (conflict++)->number = number;
    if (number != n) entries_[number] = std::move(entries_[n]);
    ++number;
  }
  entries_.resize(number);
}

Manifest::Manifest(Entries entries, std::vector<std::string> classes, uint32_t runs)
    : entries_(std::move(entries)), classes_(std::move(classes)) {
  for (uint64_t number = 0; number < entries_.size(); ++number) {
    const Entry& e = entries_[number];
    if (e.run > runs || e.label < -1 || e.label >= static_cast<int64_t>(classes_.size()) ||
        e.holders.empty() || (number > 0 && !(entries_[number - 1].digest < e.digest))) {
      throw Error("a manifest that contradicts itself at photo ", number);
    }
    unlabelled_ += e.label < 0;
  }
  number_runs(runs);
}

std::optional<uint64_t> Manifest::number_of(const Digest& photo) const {
  const auto digest = [this](size_t n) -> const Digest& { return entries_[n].digest; };
  return find_digest(entries_.size(), digest, photo);
}

Digest Manifest::digest() const {
  Sha256 hash;
  for (const std::string& name : classes_) hash.field(name);
  for (const Entry& e : entries_) {
    hash.update(e.digest.data(), e.digest.size()).field(int64_t{e.run}).field(int64_t{e.label});
  }
  return hash.finish();
}

}  // namespace ndtrain::tuner
