#include "framework/pipeline/planner/graph_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>

#include "framework/core/error.h"
#include "framework/core/text.h"

namespace ndtrain {
namespace {

constexpr std::string_view kBetween = " -- ";
constexpr double kMilliseconds = 1e3;  // of a second
constexpr size_t kShown = 80;          // bytes of what is wrong

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  for (size_t at = 0;;) {
    const size_t next = text.find(by, at);
    parts.push_back(text.substr(at, next - at));
    if (next == std::string_view::npos) return parts;
    at = next + by.size();
  }
}

class GraphReader {
 public:
  explicit GraphReader(const std::string& file) : file_(file) {}

  ModelProfile read(std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    for (const std::string_view line : split(text, "\n")) {
      ++line_;
      if (line.starts_with('\t')) {
        edge(line.substr(1));
      } else {
        node(line);
      }
    }
    profile_.source = file_;
    validate(profile_, "graph " + file_);
    check_joined();
    return std::move(profile_);
  }

 private:
  template <typename... Parts>
  [[noreturn]] void fail(std::string_view what, const Parts&... why) const {
    throw Error("graph ", file_, " line ", line_, ": '", printable(what, kShown), "' ", why...);
  }

  void node(std::string_view line) {
    const auto parts = split(line, kBetween);
    if (parts.size() < 3 || parts.size() > 4) {
      fail(line, "is no node, which is 'ID -- OP -- forward_compute_time=…, … [ -- stage_id=N]'",
           ", nor an edge, which begins with a tab: is the file torn?");
    }
    NodeProfile n{.id = std::string(parts[0]), .description = std::string(parts[1])};
    const auto fields = split(parts[2], ", ");
    if (fields.size() != 4) fail(parts[2], "has ", fields.size(), " of 4 numbers");
    n.forward = NodeTime::exactly(number(fields[0], "forward_compute_time=") / kMilliseconds);
    n.input_gradient =
        NodeTime::exactly(number(fields[1], "backward_compute_time=") / kMilliseconds);
    read_sizes(fields[2], n);
    n.parameter_bytes = number(fields[3], "parameter_size=");
    n.saved_bytes = n.in_place() || n.is_input() ? 0 : n.activation_bytes;
    if (parts.size() == 4) n.stage = stage(parts[3]);
    if (!numbers_.emplace(n.id, static_cast<int>(profile_.nodes.size())).second) {
      fail(n.id, "is there twice");
    }
    profile_.nodes.push_back(std::move(n));
  }

  void edge(std::string_view line) {
    const auto parts = split(line, kBetween);
    if (parts.size() != 2) fail(line, "is no edge, which is 'ID -- ID'");
    int ends[2];
    for (size_t i = 0; i < 2; ++i) {
      const auto it = numbers_.find(parts[i]);
      if (it == numbers_.end()) fail(parts[i], "is no node of a line above");
      ends[i] = it->second;
    }
    if (profile_.nodes[static_cast<size_t>(ends[1])].is_input()) fail(line, "leads to an input");
    profile_.nodes[static_cast<size_t>(ends[1])].inputs.push_back(ends[0]);
  }

  double value(std::string_view text) const {
    double number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && rest == text.data() + text.size();
    if (!whole || !(number >= 0) || !std::isfinite(number)) {
      fail(text, "is no number from 0 up");
    }
    return number;
  }

  double number(std::string_view field, std::string_view name) const {
    if (!field.starts_with(name)) fail(field, "is not ", name, "NUMBER");
    return value(field.substr(name.size()));
  }

  // Several tensors: "[4.0; 8.0]".
  void read_sizes(std::string_view field, NodeProfile& n) const {
    constexpr std::string_view kName = "activation_size=";
    if (!field.starts_with(std::string(kName) + "[") || !field.ends_with(']')) {
      n.activation_bytes = number(field, kName);
      return;
    }
    field.remove_prefix(kName.size() + 1);
    field.remove_suffix(1);
    for (const std::string_view one : split(field, "; ")) {
      n.activations.push_back(value(one));
      n.activation_bytes += n.activations.back();
    }
  }

  int stage(std::string_view field) const {
    constexpr std::string_view kName = "stage_id=";
    int number = 0;
    const char* end = field.data() + field.size();
    if (!field.starts_with(kName)) fail(field, "is not stage_id=N");
    const auto [rest, error] = std::from_chars(field.data() + kName.size(), end, number);
    if (error != std::errc() || rest != end || number < 0) fail(field, "is not stage_id=N");
    return number;
  }

  // A file that ends between two edges has nodes that nothing leads to.
  void check_joined() const {
    std::vector<int> part(profile_.nodes.size());
    for (size_t n = 0; n < part.size(); ++n) part[n] = static_cast<int>(n);
    const auto root = [&](int n) {
      while (part[static_cast<size_t>(n)] != n) n = part[static_cast<size_t>(n)];
      return n;
    };
    for (size_t n = 0; n < part.size(); ++n) {
      for (const int i : profile_.nodes[n].inputs) {
        part[static_cast<size_t>(root(static_cast<int>(n)))] = root(i);
      }
    }
    for (size_t n = 0; n < part.size(); ++n) {
      if (root(static_cast<int>(n)) == root(0)) continue;
      fail(profile_.nodes[n].id, "has no edges that join it to ", profile_.nodes[0].id,
           " by the end: is the file torn?");
    }
  }

  const std::string file_;
  size_t line_ = 0;
  ModelProfile profile_;
  std::map<std::string, int, std::less<>> numbers_;
};

std::string sizes_text(const NodeProfile& n) {
  if (n.activations.empty()) return python_float(n.activation_bytes);
  std::string text;
  for (const double bytes : n.activations) {
    text += (text.empty() ? "[" : "; ") + python_float(bytes);
  }
  return text + "]";
}

}  // namespace

std::string python_float(double x) {
  constexpr double kLeastFixed = 1e-4, kMostFixed = 1e16;
  const bool fixed = x == 0 || (std::abs(x) >= kLeastFixed && std::abs(x) < kMostFixed);
  char text[64];
  const auto [end, error] =
      std::to_chars(text, text + sizeof text, x,
                    fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string number(text, end);
  if (fixed && number.find('.') == std::string::npos) number += ".0";
  return number;
}

ModelProfile parse_graph_text(std::string_view text, const std::string& file) {
  return GraphReader(file).read(text);
}

std::string graph_text(const ModelProfile& profile) {
  validate(profile, "profile");
  std::string text;
  for (const NodeProfile& n : profile.nodes) {
    text += fmt::format(
        "{} -- {} -- forward_compute_time={:.3f}, backward_compute_time={:.3f}, "
        "activation_size={}, parameter_size={:.3f}{}\n",
        n.id, n.description, n.forward.median_s * kMilliseconds, n.backward_s() * kMilliseconds,
        sizes_text(n), n.parameter_bytes + n.frozen_bytes,
        n.stage ? fmt::format(" -- stage_id={}", *n.stage) : "");
  }
  for (const NodeProfile& n : profile.nodes) {
    for (const int i : n.inputs) {
      text += "\t" + profile.nodes[static_cast<size_t>(i)].id + " -- " + n.id + "\n";
    }
  }
  text.pop_back();
  return text;
}

}  // namespace ndtrain
