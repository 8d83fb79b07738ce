#include "framework/onnx/order.h"

#include <functional>
#include <queue>
#include <set>
#include <unordered_map>

namespace ndtrain {
namespace {

class Order {
 public:
  Order(OnnxModel& model, Problems& problems) : model_(model), problems_(problems) {}

  void run() {
    define_values();
    find_uses();
    sort();
    check_outputs();
  }

 private:
  static constexpr size_t kGiven = static_cast<size_t>(-1);

  static std::set<std::string> read_by(const OnnxNode& n) {
    std::set<std::string> names = captured(n);
    names.insert(n.inputs.begin(), n.inputs.end());
    names.erase("");
    return names;
  }

  void define_values() {
    for (const OnnxValue& v : model_.inputs) {
      if (!producer_.emplace(v.name, kGiven).second) {
        problems_.add("input '", v.name, "' is declared twice");
      }
    }
    // Up to IR 3 an initialiser had to be an input as well, so that is no second definition.
    for (const auto& [name, tensor] : model_.initialisers) producer_.emplace(name, kGiven);
    for (size_t i = 0; i < model_.nodes.size(); ++i) {
      for (const std::string& name : model_.nodes[i].outputs) {
        if (name.empty() || producer_.emplace(name, i).second) continue;
        problems_.add(describe(model_.nodes[i]), ": value '", name, "' is already defined");
      }
    }
  }

  void find_uses() {
    waiting_.resize(model_.nodes.size(), 0);
    users_.resize(model_.nodes.size());
    for (size_t i = 0; i < model_.nodes.size(); ++i) {
      for (const std::string& name : read_by(model_.nodes[i])) {
        const auto it = producer_.find(name);
        if (it == producer_.end()) {
          problems_.add(describe(model_.nodes[i]), ": input '", name,
                        "' comes from nowhere: no node, initialiser or input of the model has "
                        "that name");
        } else if (it->second != kGiven) {
          ++waiting_[i];
          users_[it->second].push_back(i);
        }
      }
    }
  }

  void sort() {
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i] == 0) ready.push(i);
    }
    std::vector<OnnxNode> sorted;
    sorted.reserve(model_.nodes.size());
    while (!ready.empty()) {
      const size_t i = ready.top();
      ready.pop();
      for (size_t user : users_[i]) {
        if (--waiting_[user] == 0) ready.push(user);
      }
      sorted.push_back(model_.nodes[i]);
    }
    if (sorted.size() < model_.nodes.size()) {
      name_cycle();
    } else {
      model_.nodes = std::move(sorted);
    }
  }

  // Every node that still waits has a producer that waits: walking back must repeat.
  void name_cycle() {
    size_t at = 0;
    while (waiting_[at] == 0) ++at;
    std::vector<size_t> path;
    std::unordered_map<size_t, size_t> seen;
    while (seen.emplace(at, path.size()).second) {
      path.push_back(at);
      at = waiting_producer(at);
    }
    std::string text;
    for (size_t k = path.size(); k-- > seen[at];) text += describe(model_.nodes[path[k]]) + " -> ";
    problems_.add("the graph has a cycle: ", text, describe(model_.nodes[path.back()]));
  }

  size_t waiting_producer(size_t i) const {
    for (const std::string& name : read_by(model_.nodes[i])) {
      const auto it = producer_.find(name);
      if (it == producer_.end() || it->second == kGiven) continue;
      if (waiting_[it->second] > 0) return it->second;
    }
    return i;
  }

  void check_outputs() {
    if (model_.outputs.empty()) problems_.add("the model has no outputs");
    for (const OnnxValue& v : model_.outputs) {
      if (!producer_.contains(v.name)) {
        problems_.add("output '", v.name, "' comes from nowhere: no node computes it");
      }
    }
  }

  OnnxModel& model_;
  Problems& problems_;
  std::unordered_map<std::string, size_t> producer_;
  std::vector<int> waiting_;  // inputs of node i that are not computed yet
  std::vector<std::vector<size_t>> users_;
};

}  // namespace

void order_nodes(OnnxModel& model, Problems& problems) { Order(model, problems).run(); }

}  // namespace ndtrain
