#include "ndp/http/process_metrics.h"

#include <malloc.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp {
namespace {

// Of a line like "VmRSS:  1024 kB".
int64_t of_status(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t value = 0;
    if (word == name + ":" && status >> value) return value;
  }
  return 0;
}

int64_t open_descriptors() {
  std::error_code error;
  int64_t n = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    ++n;
  }
  return n - 1;  // without the one that looks
}

}  // namespace

void add_process(MetricsText& to) {
  const auto gauge = [&](const char* name, const char* help, const MetricLabels& labels, auto n) {
    to.gauge(name, help, labels, static_cast<double>(n));
  };
  gauge("process_resident_memory_bytes", "Memory of the process that is in use", {},
        of_status("VmRSS") * 1024);
  const struct mallinfo2 heap = mallinfo2();
  const char* const help = "Of the heap: given out, and free but kept";
  gauge("process_heap_bytes", help, {{"state", "used"}}, heap.uordblks + heap.hblkhd);
  gauge("process_heap_bytes", help, {{"state", "free"}}, heap.fordblks);
  gauge("process_sqlite_bytes", "Of the heap: what databases have of their files", {},
        sql::memory_used());
  gauge("process_open_fds", "Descriptors that the process has open", {}, open_descriptors());
  gauge("process_threads", "Threads of the process", {}, of_status("Threads"));
}

}  // namespace ndtrain::ndp
