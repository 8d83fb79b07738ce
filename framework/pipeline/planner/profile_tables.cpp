#include "framework/pipeline/planner/profile_tables.h"

#include <fmt/format.h>

#include <array>

#include "framework/core/csv.h"
#include "framework/pipeline/planner/graph_text.h"

namespace ndtrain {
namespace {

constexpr std::array kColours = {"lightblue", "green",      "grey", "firebrick1",
                                 "gold",      "chocolate1", "beige"};

std::string dot_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// With all digits.
std::string csv_number(double x) { return fmt::format("{}", x); }

std::string ids_of_inputs(const ModelProfile& profile, const NodeProfile& node) {
  std::string ids;
  for (const int i : node.inputs) {
    ids += (ids.empty() ? "" : " ") + profile.nodes[static_cast<size_t>(i)].id;
  }
  return ids;
}

}  // namespace

std::string dot_text(const ModelProfile& profile) {
  std::string text = "digraph {\n";
  for (const NodeProfile& n : profile.nodes) {
    // The quoted text is without its last quote, since Graphviz has a line break of its own.
    std::string label = dot_quoted(n.description);
    label.pop_back();
    text += fmt::format(
        "  {} [label={}\\n{:.3f} ms forward, {:.3f} ms backward\\n{} bytes made, {} of "
        "parameters\"",
        dot_quoted(n.id), label, n.forward.median_s * 1e3, n.backward_s() * 1e3,
        python_float(n.activation_bytes), python_float(n.parameter_bytes + n.frozen_bytes));
    if (n.stage) {
      text += fmt::format(" style=filled fillcolor={}",
                          kColours[static_cast<size_t>(*n.stage) % kColours.size()]);
    }
    text += "]\n";
  }
  for (const NodeProfile& n : profile.nodes) {
    for (const int i : n.inputs) {
      text += "  " + dot_quoted(profile.nodes[static_cast<size_t>(i)].id) + " -> " +
              dot_quoted(n.id) + "\n";
    }
  }
  return text + "}\n";
}

std::string csv_text(const ModelProfile& profile) {
  std::string text =
      csv_row({"node", "description", "forward_s", "forward_mean_s", "forward_deviation_s",
               "input_gradient_s", "input_gradient_mean_s", "input_gradient_deviation_s",
               "weight_gradient_s", "weight_gradient_mean_s", "weight_gradient_deviation_s",
               "activation_bytes", "saved_bytes", "workspace_bytes", "parameter_bytes",
               "frozen_bytes", "inputs", "stage"});
  for (const NodeProfile& n : profile.nodes) {
    std::vector<std::string> fields = {n.id, n.description};
    for (const NodeTime* t : {&n.forward, &n.input_gradient, &n.weight_gradient}) {
      for (const double s : {t->median_s, t->mean_s, t->deviation_s}) {
        fields.push_back(csv_number(s));
      }
    }
    for (const double bytes : {n.activation_bytes, n.saved_bytes, n.workspace_bytes,
                               n.parameter_bytes, n.frozen_bytes}) {
      fields.push_back(csv_number(bytes));
    }
    fields.push_back(ids_of_inputs(profile, n));
    fields.push_back(n.stage ? std::to_string(*n.stage) : "");
    text += csv_row(fields);
  }
  return text;
}

}  // namespace ndtrain
