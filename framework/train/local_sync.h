#pragma once

#include "framework/train/gradient_sync.h"

namespace ndtrain {

// One process: all is updated when the backward pass is done.
class LocalSync final : public GradientSync {
 public:
  // Keeps references.
  LocalSync(ParameterSpace& parameters, Optimizer& optimizer)
      : parameters_(parameters), optimizer_(optimizer) {}

  void begin(const HyperParameters& hyper) override { hyper_ = hyper; }
  bool follows_the_run() const override { return false; }
  void backward_done() override;
  void skip() override {}
  void flush() override {}
  double clip_exposed_s() const override { return clip_exposed_s_; }

 private:
  void clip();

  ParameterSpace& parameters_;
  Optimizer& optimizer_;
  HyperParameters hyper_;
  Tensor on_host_;  // gradients, where the device has memory of its own
  double clip_exposed_s_ = 0;
};

}  // namespace ndtrain
