// Prometheus' text exposition, version 0.0.4: what /metrics answers.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ndtrain::ndp {

inline constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class MetricsText {
 public:
  // A name has one kind and one help, whatever its labels; anything else throws Error.
  void gauge(const std::string& name, const std::string& help, const MetricLabels& labels,
             double value);
  // Of which there may be none now: its help and kind are said all the same.
  void gauges(const std::string& name, const std::string& help) {
    (void)family("gauge", name, help);
  }
  void counter(const std::string& name, const std::string& help, const MetricLabels& labels,
               double value);  // its name ends in _total
  std::string text() const;    // names in the order in which they first came

 private:
  struct Family {
    std::string name, kind, help, samples;
  };
  Family& family(const std::string& kind, const std::string& name, const std::string& help);
  void add(const std::string& kind, const std::string& name, const std::string& help,
           const MetricLabels& labels, double value);

  std::vector<Family> families_;
};

}  // namespace ndtrain::ndp
