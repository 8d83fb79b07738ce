// Which stores a job is for, whom it waits for before it begins, and who is left out. Functions of
// what is known at a moment; nothing here depends on who answers first, but where a person said how
// many stores do.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain::tuner {

inline constexpr uint32_t kMostStores = 10'000;  // that one job asks for
inline constexpr uint32_t kMostNamed = 500;      // that one job names; a spec is at most 64 KiB

// What `--stores` says: all that the Tuner knows; so many, in byte order of their names those that
// are here; or the ones that are named.
struct StoreSelection {
  StoreSelection() = default;
  StoreSelection(uint32_t n) : number(n) {}  // NOLINT: a number is one way to say it

  uint32_t number = 0;             // 0: all, or those of `names`
  std::vector<std::string> names;  // in byte order, each once

  bool all() const { return number == 0 && names.empty(); }
  bool includes(std::string_view store) const;  // it may take part
  std::string text() const;                     // "all", "2", "attic,cellar"
  bool operator==(const StoreSelection&) const = default;
};

// How a store stands that the Tuner knows.
struct StoreStatus {
  std::string name;
  uint64_t photos = 0;  // that it said it has
  bool here = false, drained = false;
  bool ready = false;                // it has said what it holds, for this job
  std::chrono::nanoseconds away{0};  // how long it has been away or drained
};

// A store that a job waits for, or does without, and why.
struct UnavailableStore {
  std::string name;
  uint64_t photos = 0;
  std::string why;
};
// "cellar (100 photos, drained), attic (1 photo, away for 31 s)"
std::string text_of(std::span<const UnavailableStore> stores);

struct StoreChoice {
  std::vector<std::string> take;            // ready, in byte order
  std::vector<UnavailableStore> waits_for;  // that are known
  uint32_t strangers = 0;                   // that it waits for besides: nobody has met them yet
  std::vector<UnavailableStore> left_out;   // if it begins so

  bool waits() const { return take.empty() || !waits_for.empty() || strangers > 0; }
  std::string text() const;  // whom it waits for
};

// A store that is here is waited for until it is ready; one that is not, until it has been away for
// `timeout`, so not at all if it was longer than that already. One that is drained is waited for
// only by a job that asks for it by name, or by a number that takes it. Where a number is more than
// the Tuner knows stores, the job waits for the rest as long as it takes. `now`: for nobody.
StoreChoice choose_stores(const StoreSelection& meant, std::span<const StoreStatus> known,
                          std::chrono::nanoseconds timeout, bool now = false);

// Who is not among those that a job has begun with.
std::vector<UnavailableStore> left_out(const StoreSelection& meant,
                                       std::span<const StoreStatus> known,
                                       std::span<const std::string> took);

}  // namespace ndtrain::tuner
