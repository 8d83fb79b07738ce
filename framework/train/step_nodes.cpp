#include "framework/train/step_nodes.h"

#include <algorithm>
#include <set>

#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

constexpr size_t kNowhere = static_cast<size_t>(-1);

class Parts {
 public:
  explicit Parts(const StepGraph& step)
      : step_(step),
        uses_(uses_of(step.graph)),
        varies_(depends_on(step.graph, step.features)),
        part_of_(step.forward_nodes, kNowhere) {}

  StepNodes find() {
    StepNodes found;
    const std::vector<bool> needed = needed_by_loss();
    for (size_t i = 0; i < part_of_.size(); ++i) {
      if (!varies(i) || !needed[i]) continue;
      part_of_[i] = found.nodes.size();
      found.nodes.push_back(i);
    }
    for (size_t i = 0; i < part_of_.size(); ++i) {
      if (varies(i) && part_of_[i] == kNowhere) part_of_[i] = last_read(i);
    }
    for (size_t i = part_of_.size(); i-- > 0;) {
      if (!varies(i)) part_of_[i] = first_reader(i);
    }
    found.part_of = std::move(part_of_);
    return found;
  }

 private:
  const Node& node(size_t i) const { return step_.graph.nodes()[i]; }
  bool varies(size_t i) const { return varies_[index(node(i).outputs[0])]; }

  std::vector<bool> needed_by_loss() const {
    std::vector<bool> needed(part_of_.size());
    needed.back() = true;
    for (size_t i = needed.size(); i-- > 0;) {
      if (!needed[i]) continue;
      for (const ValueId v : node(i).inputs) {
        if (const int p = v == kNone ? -1 : uses_.producer(v); p >= 0) {
          needed[static_cast<size_t>(p)] = true;
        }
      }
    }
    return needed;
  }

  // Of a node that rows reach, so that it reads from a node in front of it, or from a row.
  size_t last_read(size_t i) const {
    size_t last = 0;
    for (const ValueId v : node(i).inputs) {
      const int p = v == kNone ? -1 : uses_.producer(v);
      if (p >= 0 && varies(static_cast<size_t>(p))) {
        last = std::max(last, part_of_[static_cast<size_t>(p)]);
      }
    }
    return last;
  }

  // Those behind it are known. What nobody reads is with the first node.
  size_t first_reader(size_t i) const {
    size_t first = kNowhere;
    for (const ValueId v : node(i).outputs) {
      for (const int reader : uses_.readers(v)) {
        const auto r = static_cast<size_t>(reader);
        if (r < part_of_.size()) first = std::min(first, part_of_[r]);
      }
    }
    return first == kNowhere ? 0 : first;
  }

  const StepGraph& step_;
  const Uses<ValueId> uses_;
  const std::vector<bool> varies_;  // of values: rows reach them
  std::vector<size_t> part_of_;
};

}  // namespace

StepNodes step_nodes(const StepGraph& step) {
  StepNodes found = Parts(step).find();
  std::set<std::string> names;
  for (const size_t i : found.nodes) {
    const std::string& name = step.graph.value(step.graph.nodes()[i].outputs[0]).name;
    std::string own = name;
    for (int number = 2; !names.insert(own).second; ++number) {
      own = name + "#" + std::to_string(number);
    }
    found.names.push_back(std::move(own));
  }
  return found;
}

}  // namespace ndtrain
