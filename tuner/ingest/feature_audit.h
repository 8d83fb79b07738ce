// Whether the stores of a job make the same features of the same photos. Of the photos that several
// stores hold a few are drawn, of the validation's and the first run's, and asked of two or three
// of them, among all others that these are asked for; what they answer must agree. Of stores that
// disagree the one that is alone is named: against two others of the same photo, or where the other
// agrees with a third one somewhere. A pure state machine; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/rng.h"
#include "framework/core/shape.h"
#include "ndp/engine/numerics.h"
#include "tuner/ingest/manifest.h"

namespace ndtrain::tuner {
using namespace ndp;

class FeatureAudit {
 public:
  static constexpr size_t kOfStore = 4;  // photos of each store, where others hold so many of its
  static constexpr size_t kAskers = 3;   // stores that are asked for one, at most
  static constexpr size_t kHeldBytes = size_t{64} << 20;  // of rows, at most
  // How far features may be apart: a share of their standard deviation. What stores of different
  // numerics may differ by on the job's sample (kNumericsTolerance) is less on the average photo.
  static constexpr double kTolerance = 10 * kNumericsTolerance;

  struct What {
    std::vector<TensorType> features;  // a row's, for a batch of 1; {}: nothing is audited
    size_t views = 1;                  // of photos of runs from 1 on
    uint64_t seed = 0;                 // that stores do not know
  };
  // `wanted`: which photos, by number, have no row yet. The manifest must outlive this.
  FeatureAudit(const Manifest& manifest, What what, const std::vector<bool>& wanted);

  // Adds to what a store is asked for of a run what else is asked of it; rising, as before.
  void ask(uint32_t store, uint32_t run, std::vector<uint64_t>& numbers);
  // It was asked for this by ask(), and has not answered.
  bool awaits(uint32_t store, uint64_t number) const;
  void answer(uint32_t store, uint64_t number, std::string_view row);
  // It does not answer: it has left, or cannot read the photo.
  void leave(uint32_t store);
  void leave(uint32_t store, uint64_t number);

  // Stores and runs of which answers are still to come, asked for or not.
  std::set<std::pair<uint32_t, uint32_t>> pending() const;
  bool waits() const { return !pending_.empty(); }

  struct Finding {
    std::optional<uint32_t> store;  // whose features are wrong; none: of two, nobody knows which
    uint32_t a = 0, b = 0;          // who disagree
    uint64_t photo = 0;             // number
    double difference = 0;          // a share of the standard deviation
  };
  // What is to be said now, once. `last`: no more answers come that could tell which of two it is.
  std::optional<Finding> finding(bool last);
  size_t compared() const { return compared_; }  // pairs of rows

 private:
  struct Asker {
    bool asked = false, answered = false, gone = false;
    std::string row;
  };
  struct Photo {
    uint32_t run = 0;
    std::map<uint32_t, Asker> askers;  // by store
  };

  using StoreRun = std::pair<uint32_t, uint32_t>;

  void draw(const std::vector<bool>& wanted, Rng rng);
  void settled(uint32_t store, uint32_t run);  // one of its photos: answered, or never will be
  void compare(uint64_t number, Photo& photo);
  double difference(uint32_t run, std::string_view theirs, std::string_view ours) const;
  std::optional<uint32_t> culprit(const Finding& f) const;

  const Manifest& manifest_;
  const What what_;
  size_t row_bytes_ = 0;
  std::map<uint64_t, Photo> photos_;  // by number
  // Of those, the numbers that a store is asked for, rising; and of how many it is waited for. Of
  // thousands of stores a message is of one.
  std::map<StoreRun, std::vector<uint64_t>> of_store_;
  std::map<StoreRun, size_t> pending_;             // none with 0
  std::map<uint32_t, std::set<uint32_t>> agrees_;  // store -> stores that it agreed with
  std::vector<Finding> differing_;                 // pairs that nobody was told of
  size_t compared_ = 0;
};

}  // namespace ndtrain::tuner
