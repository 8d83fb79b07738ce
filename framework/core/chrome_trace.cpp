#include "framework/core/chrome_trace.h"

#include "framework/core/json.h"

namespace ndtrain {
namespace {

constexpr double kMicroseconds = 1e6;  // of a second

std::string name_of(const char* what, int pid, int tid, const std::string& name) {
  return json_text_replacing(
      {{"name", what}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}});
}

}  // namespace

ChromeTrace::Row ChromeTrace::place(const std::string& process, const std::string& thread) {
  const auto [it, first] = rows_.try_emplace({process, thread});
  if (first) {
    const int pid =
        processes_.try_emplace(process, static_cast<int>(processes_.size()) + 1).first->second;
    it->second = {pid, static_cast<int>(rows_.size())};
  }
  return it->second;
}

void ChromeTrace::span(const std::string& process, const std::string& thread,
                       const std::string& name, double begin_s, double duration_s) {
  const auto [pid, tid] = place(process, thread);
  events_ += json_text_replacing({{"name", name},
                                  {"ph", "X"},
                                  {"pid", pid},
                                  {"tid", tid},
                                  {"ts", begin_s * kMicroseconds},
                                  {"dur", duration_s * kMicroseconds}}) +
             ",\n";
}

std::string ChromeTrace::json() const {
  std::string events = events_;
  for (const auto& [process, pid] : processes_) {
    events += name_of("process_name", pid, 0, process) + ",\n";
  }
  for (const auto& [names, row] : rows_) {
    events += name_of("thread_name", row.first, row.second, names.second) + ",\n";
  }
  if (!events.empty()) events.resize(events.size() - 2);
  return "{\"traceEvents\": [" + events + "],\n\"displayTimeUnit\": \"ms\"}";
}

}  // namespace ndtrain
