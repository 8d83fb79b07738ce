#pragma once

#include <chrono>

#include "ndp/jobs/progress.h"

namespace ndtrain::cli {
using namespace ndp;

// After the first SIGINT or SIGTERM jobs stop where they can go on later; a second one kills.
void catch_interrupts();
bool was_interrupted();
// A SIGINT, once: what it asks for can be done without stopping, and the next one is the first.
bool take_interrupt();

class QuietProgress final : public Progress {
 public:
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string&) override {}
  bool interrupted() const override { return was_interrupted(); }
};

// On a terminal one line that moves, with rate and time left, as wide as the terminal at most;
// elsewhere a plain line per stage and every ten seconds. On stderr.
class ProgressBar final : public Progress {
 public:
  ProgressBar();
  void begin(const std::string& stage, int64_t total, const std::string& unit) override;
  void update(int64_t done, const std::string& note) override;
  void end() override;
  void say(const std::string& line) override;
  bool interrupted() const override { return was_interrupted(); }

 private:
  using Clock = std::chrono::steady_clock;
  std::string counts() const;
  std::string whole(bool with_bar) const;
  std::string line(size_t width) const;
  void draw(const std::string& line);

  bool terminal_;
  std::string stage_, unit_, note_;
  int64_t total_ = 0, done_ = 0;
  bool active_ = false;
  Clock::time_point start_, drawn_;
};

}  // namespace ndtrain::cli
