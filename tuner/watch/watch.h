// Continuous training: when a fine-tuning is due, when stale labels are to be made anew, and when
// photos that have none are to get one. A state machine over what was seen; it reads no database
// and submits nothing. One thread owns it.
//
// A fine-tuning is due when people have labelled enough photos since the last one, or when the
// labels of the version in force have drifted from one window of time to the next:
// - the mean of their top-1 scores fell by more than `score_drop`, or
// - the population stability index of their classes is above `psi` (Siddiqi, Credit Risk
//   Scorecards, 2006: above 0.25 a population has changed):
//     PSI = sum over the classes of (p - q) ln(p / q)
//   where p and q are a class's shares of the later and of the earlier window. Each count has half
//   a photo added, so that a class which appears or vanishes has a share too.
// Of n and m photos in k classes that do not change at all, PSI is about (1/n + 1/m) times a
// chi-squared variable of k - 1 degrees of freedom (Yurdakul, Statistical Properties of Population
// Stability Index, 2018). It must be three standard deviations above its mean as well, or small
// windows of many classes would always seem to drift.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "framework/core/clock.h"
#include "tuner/watch/watch_rule.h"

namespace ndtrain::tuner {

// Labels that one version made in some time.
struct LabelWindow {
  int64_t photos = 0;
  double scores = 0;  // sum of the top-1 scores
  std::map<std::string, int64_t> classes;

  // So many photos of a class, with the sum of their scores.
  void add(const std::string& class_name, int64_t n, double their_scores);
  double mean_score() const { return photos == 0 ? 0 : scores / static_cast<double>(photos); }
};

double population_stability_index(const LabelWindow& later, const LabelWindow& earlier);
// What it hardly exceeds when nothing has changed.
double index_by_chance(const LabelWindow& later, const LabelWindow& earlier);

// What is to be looked at: Unix seconds. The earlier window ends where the later begins.
struct WatchTimes {
  int64_t earlier = 0, later = 0, now = 0;
};

struct WatchObservation {
  uint64_t in_force = 0;      // version; 0: none
  bool busy = false;          // a fine-tuning or a relabelling is queued or in progress
  bool stale = false;         // there are labels by other versions than the one in force
  std::string came_back;      // a store that the newest relabelling did without, and that is here
  int64_t last_training = 0;  // when the newest was submitted, whatever became of it; 0: never
  int64_t last_relabelling = 0;  // likewise, of the rule's task and collection
  // Where the rule counts what is missing: photos that the database or the stores that are here
  // have, whichever has more, and those with a label, by whomever.
  int64_t photos = 0, labelled = 0;
  // Photos that people have labelled since the last training that was done; counting may end at
  // the rule's number.
  int64_t truths = 0;
  LabelWindow later, earlier;  // of the version in force
};

struct WatchDecision {
  enum class Due { kNothing, kTraining, kRelabel, kLabelMissing };
  Due due = Due::kNothing;
  std::string why;
};
std::string_view name_of(WatchDecision::Due due);

class Watch {
 public:
  using Time = std::chrono::nanoseconds;  // of the monotonic clock

  Watch(WatchRule rule, const Clock& clock) : rule_(std::move(rule)), clock_(clock) {}

  const WatchRule& rule() const { return rule_; }
  bool wants_to_look() const { return clock_.monotonic() >= next_; }
  WatchTimes times() const;

  // What follows from it; asked again after the rule's time. What is due stays due until
  // submitted() says that it was.
  WatchDecision look(const WatchObservation& observation);
  void submitted(uint64_t job);
  // Nothing could be seen, or submitted; it is tried again after the rule's time.
  void failed(const std::string& why);

  const WatchDecision& decision() const { return decision_; }
  std::string json() const;  // the last observation, what was decided and why, and the last job

 private:
  WatchDecision decide(const WatchObservation& s) const;
  bool is_soon_after(int64_t submitted) const;
  int64_t missing(const WatchObservation& s) const;
  std::string many_missing(const WatchObservation& s) const;  // "": no
  void count_hopeless(const WatchObservation& s);
  std::string drift(const WatchObservation& s) const;  // "": none

  struct Submitted {
    uint64_t job = 0;
    int64_t time = 0;
    WatchDecision decision;
  };

  WatchRule rule_;
  const Clock& clock_;
  Time next_{0};
  int64_t looked_ = 0;  // Unix seconds
  WatchObservation observation_;
  WatchDecision decision_;
  std::string failure_;
  uint64_t relabelled_ = 0;  // the version a relabelling was last submitted for
  // Photos that the last relabelling left without a label: copies that are counted twice, what
  // cannot be read. Fewer: some have got one since, or have gone.
  int64_t hopeless_ = 0;
  bool relabels_ = false;  // one was submitted, and is not known to have ended
  std::optional<Submitted> submitted_;
};

}  // namespace ndtrain::tuner
