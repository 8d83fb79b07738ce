// Where a job of the Tuner says how far it is: read by whoever asks, while the job's own thread
// writes. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "ndp/jobs/progress.h"

namespace ndtrain::tuner {
using namespace ndp;

class JobProgress final : public Progress {
 public:
  void begin(const std::string& stage, int64_t total, const std::string& unit) override;
  void update(int64_t done, const std::string& note) override;
  void end() override;
  void say(const std::string& line) override;
  bool interrupted() const override { return interrupted_; }

  void interrupt() { interrupted_ = true; }
  // Lines said since the last call.
  std::vector<std::string> take_lines();
  // "epoch 3/15: 1200 of 2599 photos"; "" between stages.
  std::string now() const;

 private:
  std::atomic<bool> interrupted_ = false;
  mutable std::mutex mutex_;
  std::string stage_, unit_, note_;
  int64_t done_ = 0, total_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace ndtrain::tuner
