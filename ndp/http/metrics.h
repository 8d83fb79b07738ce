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
  void counter(const std::string& name, const std::string& help, const MetricLabels& labels,
               double value);  // its name ends in _total
  std::string text() const;    // names in the order in which they first came

 private:
  struct Family {
    std::string name, kind, help, samples;
  };
  void add(const std::string& kind, const std::string& name, const std::string& help,
           const MetricLabels& labels, double value);

  std::vector<Family> families_;
};

}  // namespace ndtrain::ndp
