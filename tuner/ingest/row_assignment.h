// Which store is to deliver the row of which photo of a job, and which rows are there: what makes
// delivery exactly-once. A store is asked for a part at a time, so that shares follow what stores
// deliver. First for photos of its own: each photo is that holder's whose name and the photo's
// digest have the highest hash, the same one in each job, so that it finds it in its cache. Then
// for photos of others that nobody was asked for. When there are none left, for the last ones that
// another was asked for and has not delivered; the first answer counts.
//
// A pure state machine: no clock, socket or disk. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tuner/ingest/manifest.h"

namespace ndtrain::tuner {
using namespace ndp;

class RowAssignment {
 public:
  // `stores[s]` names store s of the manifest, which must outlive the assignment. All are away.
  RowAssignment(const Manifest& manifest, const std::vector<std::string>& stores);

  // It was asked for nothing then: what it was asked for before, others may be, and it again.
  void arrive(uint32_t store);
  void leave(uint32_t store);
  bool is_here(uint32_t store) const { return stores_.at(store).here; }

  // It holds these photos by now: what the manifest does not say of it comes to that. Rising.
  void hold(uint32_t store, std::span<const uint64_t> numbers);

  struct Share {
    uint32_t run = 0;
    std::vector<uint64_t> numbers;  // rising
  };
  // What a store that is here is asked for from now on, at most `most` photos, the first runs
  // first: of its own, and of those of others.
  std::vector<Share> take(uint32_t store, size_t most);
  std::vector<Share> take_own(uint32_t store, size_t most);
  // At most so many that another is asked for already, of which it has the most to do; of one run.
  Share take_second(uint32_t store, size_t most);
  // The stores that may take some now, and perhaps could not when this was last asked; rising.
  std::vector<uint32_t> take_changed();
  // Photos that it was asked for, and whose rows are not durable.
  size_t outstanding(uint32_t store) const { return stores_.at(store).outstanding; }

  // A row of `number` is durable. False when one was before: the repeat is to be dropped.
  bool mark_durable(uint64_t number);
  // The store has delivered, and its row is dropped for another's that may become durable.
  void take_back(uint64_t number, uint32_t store);
  // The store cannot read its copy; the photo goes to another holder, if there is one.
  void cannot_read(uint64_t number, uint32_t store, std::string reason);

  bool has_row(uint64_t number) const { return rows_.at(number); }
  // Every photo of the run has a row, or all of its holders say that they cannot read it.
  bool complete(uint32_t run) const { return open_.at(run) == 0; }
  // Photos that no holder can read, with the last reason.
  const std::map<uint64_t, std::string>& unreadable() const { return unreadable_; }

 private:
  struct Queue {
    explicit Queue(std::pmr::memory_resource* memory) : numbers(memory) {}
    std::pmr::vector<uint64_t> numbers;
    size_t next = 0;
  };
  struct Run {
    explicit Run(std::pmr::memory_resource* memory) : own(memory), others(memory) {}
    Queue own;                    // that it alone holds, then others; each rising
    Queue others;                 // that it holds, and are another's own; falling
    std::vector<uint64_t> again;  // that a store was asked for, and is no more
  };
  struct Store {
    bool here = false;
    size_t outstanding = 0;
    std::vector<Run> runs;
  };
  using Askers = std::array<uint32_t, 2>;  // the stores that were asked
  static constexpr uint32_t kNobody = UINT32_MAX;

  bool can(uint32_t store, uint64_t number) const { return !failed_.contains({number, store}); }
  bool waits(uint32_t store, uint64_t number) const {  // to be asked of it
    return !rows_[number] && askers_[number][0] == kNobody && can(store, number);
  }
  bool is_asked(uint32_t store, uint64_t number) const {
    return std::ranges::find(askers_[number], store) != askers_[number].end();
  }
  void ask(uint32_t store, uint64_t number);
  bool release(uint32_t store, uint64_t number);
  void open_again(uint64_t number);
  void give_up(uint32_t store);
  // Those of the manifest, and who came to hold it later.
  absl::InlinedVector<uint32_t, 2> holders(uint64_t number) const;
  void changed_for_holders(uint64_t number);
  void take_from(Queue& queue, uint32_t store, size_t most, std::vector<uint64_t>& numbers);
  std::vector<Share> take(uint32_t store, size_t most, bool own_alone);
  std::map<uint32_t, std::vector<uint64_t>> asked_of_others(uint32_t store, uint32_t run) const;

  const Manifest& manifest_;
  std::vector<Store> stores_;
  std::set<uint32_t> changed_;
  std::map<uint64_t, absl::InlinedVector<uint32_t, 2>> later_;  // holders, by number
  std::vector<bool> rows_;
  std::pmr::vector<Askers> askers_;
  std::set<uint64_t> dropped_;                      // taken back, and asked of nobody
  std::set<std::pair<uint64_t, uint32_t>> failed_;  // number, store
  std::map<uint64_t, std::string> unreadable_;
  std::vector<uint64_t> open_;  // photos of each run without a row that are not unreadable
};

}  // namespace ndtrain::tuner
