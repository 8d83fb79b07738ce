#include "framework/pipeline/planner/model_profile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>
#include <queue>
#include <set>

#include "framework/core/error.h"
#include "framework/core/text.h"

namespace ndtrain {
namespace {

void check_node(const NodeProfile& n, int nodes, const std::string& what) {
  const std::string name = what + " node '" + printable(n.id) + "' ";
  for (const std::string& text : {n.id, n.description}) {
    if (!is_plain(text) || text.find(" -- ") != std::string::npos) {
      throw Error(name, "has '", printable(text), "' in it, which no line of a file can hold");
    }
  }
  const auto check = [&](const char* number, double value) {
    if (value >= 0 && std::isfinite(value)) return;
    throw Error(name, "has ", number, " = ", value, ", which is no number from 0 up");
  };
  for (const NodeTime* t : {&n.forward, &n.input_gradient, &n.weight_gradient}) {
    for (const double s : {t->mean_s, t->median_s, t->deviation_s, t->fixed_s}) check("a time", s);
    if (t->fixed_s > t->median_s) {
      throw Error(name, "takes ", t->median_s, " s, of which ", t->fixed_s, " are fixed");
    }
  }
  check("activation_bytes", n.activation_bytes);
  check("saved_bytes", n.saved_bytes);
  check("workspace_bytes", n.workspace_bytes);
  check("fixed_workspace_bytes", n.fixed_workspace_bytes);
  if (n.fixed_workspace_bytes > n.workspace_bytes) {
    throw Error(name, "works in ", n.workspace_bytes, " bytes, of which ", n.fixed_workspace_bytes,
                " are fixed");
  }
  check("parameter_bytes", n.parameter_bytes);
  check("frozen_bytes", n.frozen_bytes);
  for (const int i : n.inputs) {
    if (i < 0 || i >= nodes) throw Error(name, "reads node ", i, "; there are ", nodes);
  }
}

std::vector<std::vector<int>> readers_of(const ModelProfile& profile) {
  std::vector<std::vector<int>> readers(profile.nodes.size());
  for (size_t n = 0; n < profile.nodes.size(); ++n) {
    for (const int i : profile.nodes[n].inputs) {
      readers[static_cast<size_t>(i)].push_back(static_cast<int>(n));
    }
  }
  return readers;
}

// Along what has to wait: "node3, node5, node3".
std::string circle(const ModelProfile& profile, const std::vector<int>& order) {
  std::vector<bool> done(profile.nodes.size());
  for (const int n : order) done[static_cast<size_t>(n)] = true;
  const auto waits_for = [&](int n) {
    const auto& inputs = profile.nodes[static_cast<size_t>(n)].inputs;
    return *std::ranges::find_if(inputs, [&](int i) { return !done[static_cast<size_t>(i)]; });
  };
  int at = static_cast<int>(std::ranges::find(done, false) - done.begin());
  for (size_t i = 0; i < done.size(); ++i) at = waits_for(at);  // from here on the circle
  const int first = at;
  std::string names = profile.nodes[static_cast<size_t>(first)].id;
  do {
    at = waits_for(at);
    names += ", " + profile.nodes[static_cast<size_t>(at)].id;
  } while (at != first);
  return names;
}

double sum_of_inputs(const ModelProfile& profile, NodeTime NodeProfile::*time) {
  double sum = 0;
  for (const NodeProfile& n : profile.nodes) {
    if (n.is_input()) sum += (n.*time).median_s;
  }
  return sum;
}

}  // namespace

bool NodeProfile::in_place() const {
  return description.find("inplace") != std::string::npos ||
         description.find("Add") != std::string::npos;
}

double ModelProfile::copy_s() const { return sum_of_inputs(*this, &NodeProfile::forward); }
double ModelProfile::load_s() const { return sum_of_inputs(*this, &NodeProfile::input_gradient); }

std::vector<int> execution_order(const ModelProfile& profile) {
  const auto readers = readers_of(profile);
  std::vector<size_t> waits(profile.nodes.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t n = 0; n < waits.size(); ++n) {
    waits[n] = profile.nodes[n].inputs.size();
    if (waits[n] == 0) ready.push(static_cast<int>(n));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int n = ready.top();
    ready.pop();
    order.push_back(n);
    for (const int r : readers[static_cast<size_t>(n)]) {
      if (--waits[static_cast<size_t>(r)] == 0) ready.push(r);
    }
  }
  return order;
}

void validate(const ModelProfile& profile, const std::string& what) {
  std::set<std::string_view> ids;
  bool planned = false;
  for (const NodeProfile& n : profile.nodes) {
    check_node(n, static_cast<int>(profile.nodes.size()), what);
    if (n.id.empty()) throw Error(what, " has a node without an id");
    if (!ids.insert(n.id).second) throw Error(what, " has node '", n.id, "' twice");
    planned |= !n.is_input();
    if (n.is_input() && !n.inputs.empty()) {
      throw Error(what, " node '", n.id, "' is an input, but reads ",
                  profile.nodes[static_cast<size_t>(n.inputs.front())].id);
    }
  }
  if (!planned) throw Error(what, " has no node but inputs");
  for (const double x : {profile.optimizer_s_per_byte, profile.moment_bytes_per_byte,
                         profile.peak_bytes, static_cast<double>(profile.batch)}) {
    if (!(x >= 0) || !std::isfinite(x)) throw Error(what, " has ", x, ", no number from 0 up");
  }
  const std::vector<int> order = execution_order(profile);
  if (order.size() < profile.nodes.size()) {
    throw Error(what, " has nodes that wait for each other: ", circle(profile, order));
  }
}

ModelProfile with_minibatch_ratio(ModelProfile profile, double ratio) {
  for (NodeProfile& n : profile.nodes) {
    for (NodeTime* t : {&n.forward, &n.input_gradient, &n.weight_gradient}) {
      *t = {t->mean_s * ratio, t->of_share(ratio), t->deviation_s * ratio, t->fixed_s};
    }
    for (double* bytes : {&n.activation_bytes, &n.saved_bytes}) *bytes *= ratio;
    for (double& bytes : n.activations) bytes *= ratio;
    n.workspace_bytes = n.workspace_of_share(ratio);
  }
  if (profile.batch > 0) {
    const double rows = static_cast<double>(profile.batch) * ratio;
    profile.batch = std::max<int64_t>(1, std::llround(rows));
  }
  profile.peak_bytes = 0;
  return profile;
}

}  // namespace ndtrain
