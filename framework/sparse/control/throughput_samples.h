// The throughputs that were measured of one rank, by batch, and the model that fits them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/sparse/control/throughput_model.h"

namespace ndtrain {

class ThroughputSamples {
 public:
  static constexpr int kWarmUp = 4;       // steps of a rank that are left out
  static constexpr int kLeast = 4;        // samples behind them, before there is a model
  static constexpr double kOutlier = 4;   // so many times more or less than the mean is no sample
  static constexpr int kInARow = 3;       // outliers: it is so then, and the mean begins anew
  static constexpr size_t kBatches = 64;  // that are kept; the one not seen for longest goes

  explicit ThroughputSamples(ThroughputBounds bounds = {}) : bounds_(bounds) {}

  // A step: 1000 batch / backward_ms rows/s, with 1 - memory() of its batch's mean, or all of it
  // where that is the first. What it was left out for, or empty; warming up is no reason. Throws
  // Error unless both are above 0 and finite.
  std::string add(int64_t batch, double backward_ms);
  // What a mean keeps at each sample: .9 while batches are tried, .999 afterwards.
  double memory() const { return memory_; }
  void set_memory(double memory) { memory_ = memory; }

  int count() const { return count_; }  // of samples
  bool enough() const { return count_ >= kLeast; }
  std::vector<ThroughputPoint> means() const;
  // As the last fit() left it.
  const ThroughputModel& model() const { return model_; }
  // Throws Error before enough().
  void fit();

 private:
  struct Mean {
    double rows_per_s = 0;
    int outliers = 0;  // in a row
    int64_t seen = 0;  // the step, counted here
  };
  void forget_oldest();

  ThroughputBounds bounds_;
  double memory_ = 0.9;
  int64_t steps_ = 0;
  int count_ = 0;
  std::map<int64_t, Mean> means_;
  ThroughputModel model_;
};

}  // namespace ndtrain
