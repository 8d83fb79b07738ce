#include "ndp/http/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

bool is_name(std::string_view s) {
  return !s.empty() && std::isdigit(static_cast<unsigned char>(s[0])) == 0 &&
         std::ranges::all_of(s, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void MetricsText::gauge(const std::string& name, const std::string& help,
                        const MetricLabels& labels, double value) {
  add("gauge", name, help, labels, value);
}

void MetricsText::counter(const std::string& name, const std::string& help,
                          const MetricLabels& labels, double value) {
  if (!name.ends_with("_total"))
    throw Error("MetricsText: counter ", name, ": no _total at its end");
  add("counter", name, help, labels, value);
}

MetricsText::Family& MetricsText::family(const std::string& kind, const std::string& name,
                                         const std::string& help) {
  if (!is_name(name)) throw Error("MetricsText: '", name, "' is no name of a metric");
  auto found = std::ranges::find(families_, name, &Family::name);
  if (found == families_.end()) {
    families_.push_back({.name = name, .kind = kind, .help = help});
    found = std::prev(families_.end());
  }
  if (found->kind != kind || found->help != help) {
    throw Error("MetricsText: ", name, " is a ", found->kind, ", '", found->help, "', and a ", kind,
                ", '", help, "'");
  }
  return *found;
}

void MetricsText::add(const std::string& kind, const std::string& name, const std::string& help,
                      const MetricLabels& labels, double value) {
  Family& to = family(kind, name, help);
  std::string inside;
  for (const auto& [label, text] : labels) {
    if (!is_name(label)) throw Error("MetricsText: ", name, ": '", label, "' is no label");
    inside += fmt::format("{}{}=\"{}\"", inside.empty() ? "" : ",", label, escaped(text, true));
  }
  if (!inside.empty()) inside = "{" + inside + "}";
  to.samples += fmt::format("{}{} {}\n", name, inside, number(value));
}

std::string MetricsText::text() const {
  std::string out;
  for (const Family& f : families_) {
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{3}", f.name, escaped(f.help, false),
                       f.kind, f.samples);
  }
  return out;
}

}  // namespace ndtrain::ndp
