// The parameters of a rank's stages while steps are under way: which values are computed with, and
// where an update goes.
#pragma once

#include <memory>

#include "framework/parallel/versioned_parameters.h"
#include "framework/pipeline/run/staleness.h"
#include "framework/train/optimizer.h"

namespace ndtrain {

// One thread.
class StageWeights {
 public:
  // Of stages that are so many updates late. Keeps references.
  StageWeights(ParameterSpace& parameters, Optimizer& optimizer, const Device& device,
               int updates_late, const Staleness& staleness);
  ~StageWeights();

  int updates_late() const { return updates_late_; }
  // Besides the parameters themselves.
  int extra_versions() const { return updates_late_ + (predicted_.data() ? 1 : 0); }

  // The optimizer's next step, at a schedule's learning rate.
  struct Step {
    HyperParameters hyper;
    double lr = 0;
  };
  Step next(double lr);

  // Steps follow until drained(); versions count from 0.
  void begin(const Step& first);
  // Of what is computed with; null: there is one, the parameters themselves.
  VersionedParameters* versions() { return versions_.get(); }
  // The update of a range. `following`: the step behind it; null: it is drained before.
  void update(ParameterRange range, const Step& step, const Step* following, float* gradients);
  void drained();  // the parameters are the newest
  void give_up();  // they are of no step

 private:
  struct Elementwise;
  void predict(float* to, const Step& step);

  ParameterSpace& parameters_;
  Optimizer& optimizer_;
  const Device& device_;
  const int updates_late_;
  const Staleness staleness_;
  DeviceTensor predicted_;  // memory of a version
  std::unique_ptr<VersionedParameters> versions_;
  std::unique_ptr<Elementwise> predict_, compensate_;
};

}  // namespace ndtrain
