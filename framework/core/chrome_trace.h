// What happened when, as a file that chrome://tracing and Perfetto show: the Trace Event Format
// (Google, 2016), complete events in rows of processes and their threads.
#pragma once

#include <map>
#include <string>
#include <utility>

namespace ndtrain {

// Not thread-safe.
class ChromeTrace {
 public:
  // Puts a row there, which may stay empty. Rows are shown in the order in which they come first.
  void row(const std::string& process, const std::string& thread) { (void)place(process, thread); }
  // `name` took `duration_s` from `begin_s` on, of any clock that all spans share. Replaces what is
  // not UTF-8.
  void span(const std::string& process, const std::string& thread, const std::string& name,
            double begin_s, double duration_s);

  std::string json() const;

 private:
  using Row = std::pair<int, int>;  // pid, tid: from 1
  Row place(const std::string& process, const std::string& thread);

  std::map<std::string, int> processes_;
  std::map<std::pair<std::string, std::string>, Row> rows_;
  std::string events_;  // each followed by a comma
};

}  // namespace ndtrain
