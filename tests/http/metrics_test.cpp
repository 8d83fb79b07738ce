#include "ndp/http/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <future>
#include <vector>

#include "framework/core/error.h"
#include "ndp/http/process_metrics.h"
#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp {
namespace {

TEST(MetricsText, SaysHelpAndTypeOncePerName) {
  MetricsText m;
  m.gauge("ndt_photos", "Photos by state.", {{"state", "new"}}, 3);
  m.counter("ndt_bytes_total", "Bytes by kind.", {{"kind", "features"}, {"way", "in"}}, 1e15);
  m.gauge("ndt_photos", "Photos by state.", {{"state", "extracted"}}, 0.25);
  m.gauge("ndt_up", "1 while it runs.", {}, 1);
  EXPECT_EQ(m.text(),
            "# HELP ndt_photos Photos by state.\n"
            "# TYPE ndt_photos gauge\n"
            "ndt_photos{state=\"new\"} 3\n"
            "ndt_photos{state=\"extracted\"} 0.25\n"
            "# HELP ndt_bytes_total Bytes by kind.\n"
            "# TYPE ndt_bytes_total counter\n"
            "ndt_bytes_total{kind=\"features\",way=\"in\"} 1000000000000000\n"
            "# HELP ndt_up 1 while it runs.\n"
            "# TYPE ndt_up gauge\n"
            "ndt_up 1\n");
}

double value(const std::string& name) {
  MetricsText m;
  add_process(m);
  const std::string text = "\n" + m.text();
  const size_t at = text.find("\n" + name + " ");
  EXPECT_NE(at, std::string::npos) << text;
  return std::stod(text.substr(at + name.size() + 2));
}

TEST(ProcessMetrics, SayWhatDatabasesHold) {
  const double before = value("process_sqlite_bytes");
  {
    sql::Database db(":memory:");
    db.execute("CREATE TABLE t(b); INSERT INTO t VALUES(randomblob(3000000))");
    EXPECT_GE(value("process_sqlite_bytes"), before + 3'000'000);
  }
  EXPECT_EQ(value("process_sqlite_bytes"), before);
}

// What the process holds is in it, and what it gives back is not.
TEST(ProcessMetrics, SayWhatTheProcessHolds) {
  if (value("process_heap_bytes{state=\"used\"}") == 0) {
    GTEST_SKIP() << "a sanitizer's heap says nothing of itself";
  }
  const double used = value("process_heap_bytes{state=\"used\"}");
  const double resident = value("process_resident_memory_bytes");
  const double threads = value("process_threads"), open = value("process_open_fds");
  {
    const std::vector<char> held(64 << 20, 'x');
    std::ifstream file("/proc/self/status");
    std::promise<void> go;
    const auto waits = std::async(std::launch::async, [&] { go.get_future().wait(); });
    EXPECT_GE(value("process_heap_bytes{state=\"used\"}"), used + (64 << 20));
    EXPECT_GE(value("process_resident_memory_bytes"), resident + (60 << 20));
    EXPECT_EQ(value("process_open_fds"), open + 1);
    EXPECT_EQ(value("process_threads"), threads + 1);
    go.set_value();
  }
  EXPECT_LT(value("process_heap_bytes{state=\"used\"}"), used + (1 << 20));
  EXPECT_EQ(value("process_open_fds"), open);
}

TEST(MetricsText, SaysWhatThereMayBeOfWhatIsNot) {
  MetricsText m;
  m.gauges("jobs", "That run");
  EXPECT_EQ(m.text(), "# HELP jobs That run\n# TYPE jobs gauge\n");
  m.gauge("jobs", "That run", {{"job", "1"}}, 2);
  EXPECT_EQ(m.text(), "# HELP jobs That run\n# TYPE jobs gauge\njobs{job=\"1\"} 2\n");
}

TEST(MetricsText, EscapesHelpAndLabels) {
  MetricsText m;
  m.gauge("a", "one \"two\"\nthree\\", {{"b", "one \"two\"\nthree\\"}}, 0);
  EXPECT_EQ(m.text(),
            "# HELP a one \"two\"\\nthree\\\\\n"
            "# TYPE a gauge\n"
            "a{b=\"one \\\"two\\\"\\nthree\\\\\"} 0\n");
}

TEST(MetricsText, WritesNumbersAsPrometheusReadsThem) {
  MetricsText m;
  for (const double v : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300, 0.1}) m.gauge("a", "b", {}, v);
  EXPECT_EQ(m.text(), "# HELP a b\n# TYPE a gauge\na NaN\na +Inf\na -Inf\na 1e+300\na 0.1\n");
}

TEST(MetricsText, RefusesWhatPrometheusWould) {
  MetricsText m;
  m.gauge("a", "help", {}, 1);
  EXPECT_THROW(m.gauge("a", "other help", {}, 1), Error);
  EXPECT_THROW(m.gauge("", "help", {}, 1), Error);
  EXPECT_THROW(m.gauge("1a", "help", {}, 1), Error);
  EXPECT_THROW(m.gauge("a-b", "help", {}, 1), Error);
  EXPECT_THROW(m.gauge("b", "help", {{"c d", "e"}}, 1), Error);
  EXPECT_THROW(m.counter("a", "help", {}, 1), Error);
  m.counter("c_total", "help", {}, 1);
  EXPECT_THROW(m.gauge("c_total", "help", {}, 1), Error);
}

}  // namespace
}  // namespace ndtrain::ndp
