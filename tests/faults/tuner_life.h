// One process of a Tuner that is asked for a job, with a store that has its photos.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/tuner/service_fixture.h"

namespace ndtrain::faults {
using namespace ndp;
using namespace tuner;

// In the order of a manifest of all of them.
const std::vector<Digest>& some_photos();

class TunerLife {
 public:
  struct Role {
    std::string model;  // a file that the Tuner has
    std::function<std::unique_ptr<JobFactory>(Fs& fs, Clock& clock, ModelStore& models,
                                              const Versions& versions)>
        works;
    std::function<JobSpec(const Digest& model)> job;
    std::function<std::string(uint64_t number)> row;  // of a photo, by the store
  };
  // What it has said to others.
  struct Said {
    uint64_t job = 0;         // that was accepted
    std::set<uint64_t> rows;  // numbers that were acknowledged
  };

  // Keeps references. Throws Error where it does not start.
  TunerLife(Fs& fs, const Role& role);

  // The job, which is submitted where it was not accepted yet, until it is closed or nothing more
  // happens.
  void play(Said& said);

  const JobRecord& job(uint64_t id) const { return service_.job(id); }
  std::vector<PublishedModel> versions() const { return versions_.all(); }
  const std::set<uint64_t>& asked() const { return asked_; }  // rows of the store

 private:
  void say(wire::FromStore m);
  void answer(const wire::ToStore& m, Said& said);
  void send_inventory(const wire::Job& job);
  void send_row(const wire::Wanted& wanted, uint64_t number);

  Fs& fs_;
  const Role& role_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "tuner").or_throw();
  testing::Links links_;
  support::WaitingLanes lanes_;
  ModelStore models_{fs_, "state/models"};
  Versions versions_{fs_, "state/versions.json"};
  const Digest model_ = models_.add(role_.model).or_throw();
  const std::unique_ptr<JobFactory> works_ = role_.works(fs_, clock_, models_, versions_);
  TunerIdentity me_ = state_.next_term(1).or_throw();
  TunerService service_{{fs_, clock_, state_, links_, lanes_, *works_, models_, versions_}, me_};
  size_t answered_ = 0;
  std::set<uint64_t> asked_;
  std::map<uint64_t, uint64_t> chunks_;  // the photo of each
};

}  // namespace ndtrain::faults
