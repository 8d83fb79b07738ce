// Brings model files to a PipeStore, one after the other: by deltas from what is there when
// the Tuner knows such a way, else the file itself. Every file is verified before it has its name;
// a delta that does not do is told to the Tuner, and the file itself is wanted then. One thread
// owns it; deltas are applied on a lane.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "framework/core/lanes.h"
#include "ndp/wire/model_blobs.h"
#include "ndp/wire/wire.pb.h"

namespace ndtrain::ndp {

// Makes a file of a base and a delta, as apply_delta() does.
using DeltaApplier = std::function<Result<std::string>(std::string_view, std::string_view)>;

class ModelFetch {
 public:
  static constexpr int kCorruptModels = 3;  // then it is given up
  static constexpr int kSteps = 256;        // of one way, at most
  static constexpr int kBadWays = 3;        // to one model; then it is given up
  static constexpr size_t kHeld = 64;       // models that the Tuner is told of, at most

  struct Setting {
    Fs& fs;
    ModelBlobs& blobs;
    Lanes& lanes;
    size_t lane;
    DeltaApplier apply;
    std::function<void(wire::FromStore)> send;
    std::function<void()> here;                 // a model is, that was wanted
    std::function<void(const Status&)> failed;  // it cannot be kept
  };

  explicit ModelFetch(Setting setting) : setting_(std::move(setting)) {}

  // Asks for the first that is not here, unless something is under way. True: all are here.
  bool fetch(std::span<const Digest> models);
  void way(const wire::Way& way);
  // False: the part's checksum is wrong, and so is the session.
  bool part(const wire::ModelPart& part);
  void session_over();
  bool idle() const { return !model_; }
  uint64_t bytes() const { return bytes_; }  // that have come, so far

  // A model here whose bytes are not its own any more; it may have lain on the disk for long.
  struct Damage {
    Digest model{};
    std::string what;
  };
  std::optional<Damage> damage_in(std::span<const Digest> models) const;  // any thread
  // As fetch() does; kCorruptModels in a row are too many.
  void fetch_again(const Damage& damage);
  void found_whole() { damaged_ = 0; }  // all of what was looked at

 private:
  struct Step {
    Digest delta{}, base{}, result{};
  };

  void want(const Digest& file, const wire::ModelWanted& like);
  void next_step();
  void apply_step();
  void applied(const Status& status);
  void by_itself(const std::string& failure);
  void give_up(const Status& why);

  Setting setting_;
  std::optional<Digest> model_;     // that is wanted
  std::deque<Step> steps_;          // on the way to it
  std::optional<Digest> fetching_;  // the file that parts are of
  int64_t asked_until_ = 0;         // bytes of it
  uint64_t bytes_ = 0;              // of all
  int corrupt_ = 0;                 // that came
  int bad_ways_ = 0;                // to the model that is wanted
  int damaged_ = 0;                 // that were here
  uint64_t serial_ = 0;             // of what is under way; tasks of another are stale
};

}  // namespace ndtrain::ndp
