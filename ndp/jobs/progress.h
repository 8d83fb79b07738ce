#pragma once

#include <cstdint>
#include <string>

namespace ndtrain::ndp {

// Where a job tells people how far it is. Called from the job's own thread.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void begin(const std::string& stage, int64_t total, const std::string& unit) = 0;
  virtual void update(int64_t done, const std::string& note = "") = 0;
  virtual void end() = 0;
  virtual void say(const std::string& line) = 0;  // a fact worth a line of its own
  // Asked between steps: a job that can be resumed stops when it is true. Any thread.
  virtual bool interrupted() const { return false; }
};

class NoProgress final : public Progress {
 public:
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string&) override {}
};

}  // namespace ndtrain::ndp
