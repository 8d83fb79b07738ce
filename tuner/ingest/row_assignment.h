// Which store is to deliver the row of which photo of a job, and which rows are there: what makes
// delivery exactly-once. A photo is assigned to one holder that is here, until its row is durable
// or nobody can read it.
//
// A pure state machine: no clock, socket or disk. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuner/ingest/manifest.h"

namespace ndtrain::tuner {
using namespace ndp;

class RowAssignment {
 public:
  // `stores[s]` names store s of the manifest, which must outlive the assignment. All are away.
  RowAssignment(const Manifest& manifest, std::vector<std::string> stores);

  void arrive(uint32_t store);
  void leave(uint32_t store);  // its photos go to other holders, where there are any
  bool is_here(uint32_t store) const { return here_.at(store); }

  // The store that a photo is assigned to; nullopt when its row is there or no holder is.
  std::optional<uint32_t> assignee(uint64_t number) const;
  // The photos of a run that a store is assigned, rising.
  std::vector<uint64_t> assigned(uint32_t store, uint32_t run) const;

  // A row of `number` is durable. False when one was before: the repeat is to be dropped.
  bool mark_durable(uint64_t number);
  // The store cannot read its copy; the photo goes to the next holder, if there is one.
  void cannot_read(uint64_t number, uint32_t store, std::string reason);

  bool has_row(uint64_t number) const { return rows_.at(number); }
  // Every photo of the run has a row, or all of its holders say that they cannot read it.
  bool complete(uint32_t run) const;
  // Photos of a run that nobody here can deliver, although an absent holder might.
  std::vector<uint64_t> orphans(uint32_t run) const;
  // Photos that no holder can read, with the last reason.
  const std::map<uint64_t, std::string>& unreadable() const { return unreadable_; }

 private:
  bool can(uint32_t store, uint64_t number) const { return !failed_.contains({number, store}); }

  const Manifest& manifest_;
  std::vector<uint64_t> names_;  // hashes of the stores' names
  std::vector<bool> here_, rows_;
  std::set<std::pair<uint64_t, uint32_t>> failed_;  // number, store
  std::map<uint64_t, std::string> unreadable_;
  std::vector<uint64_t> open_;  // photos of each run without a row that are not unreadable
};

}  // namespace ndtrain::tuner
