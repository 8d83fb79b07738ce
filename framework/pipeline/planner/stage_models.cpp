#include "framework/pipeline/planner/stage_models.h"

#include <algorithm>
#include <map>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

class StageModels {
 public:
  StageModels(const Model& model, const PipelinePlan& plan, std::span<const std::string> nodes)
      : model_(model), stages_(plan.stages.size()) {
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      for (const std::string& id : plan.stages[s].nodes) {
        if (std::ranges::find(nodes, id) == nodes.end()) {
          throw Error("plan: node '", id, "' of stage ", s, " is not in this model");
        }
        planned_[id] = static_cast<int>(s);
      }
    }
    for (const std::string& id : nodes) {
      if (!planned_.contains(id)) {
        throw Error("plan: node '", id, "' of this model is in no stage");
      }
    }
    for (const ModelInput& in : model.inputs) stage_of_[in.name] = kInput;
    for (const ModelNode& n : model.nodes) place(n);
    for (const ModelNode& n : model.nodes) connect(n);
    for (const std::string& name : model.outputs) give_out(name);
  }

  std::vector<Model> make() const {
    std::vector<Model> models;
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (stages_[s].outputs.empty()) {
        throw Error("plan: stage ", s,
                    " has no node of the model, so that there is nothing to write");
      }
      models.push_back(extract(model_, stages_[s].inputs, stages_[s].outputs));
    }
    return models;
  }

 private:
  static constexpr int kInput = -1;
  struct Ends {
    std::vector<std::string> inputs, outputs;
  };

  static void add(std::vector<std::string>& names, const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }

  // What rows reach, but for arithmetic on shapes, which each stage does for itself.
  bool varies(const std::string& name) const { return stage_of_.contains(name); }
  bool varies(const ModelNode& n) const {
    return n.op != "Shape" &&
           std::ranges::any_of(n.inputs, [&](const auto& name) { return varies(name); });
  }

  void place(const ModelNode& n) {
    if (!varies(n)) return;
    int stage = 0;
    for (const std::string& name : n.inputs) {
      if (varies(name)) stage = std::max(stage, stage_of_.at(name));
    }
    const auto planned = planned_.find(n.outputs[0]);
    if (planned != planned_.end()) {
      if (planned->second < stage) {
        throw Error("plan: '", n.outputs[0], "' of stage ", planned->second, " reads what stage ",
                    stage, " makes: an edge may not go back");
      }
      stage = planned->second;
    }
    for (const std::string& name : n.outputs) stage_of_[name] = stage;
  }

  void connect(const ModelNode& n) {
    if (!varies(n)) return;
    const int to = stage_of_.at(n.outputs[0]);
    for (const std::string& name : n.inputs) {
      if (!varies(name) || stage_of_.at(name) == to) continue;
      add(stages_[static_cast<size_t>(to)].inputs, name);
      give_out(name);
    }
  }

  void give_out(const std::string& name) {
    const auto it = stage_of_.find(name);
    if (it == stage_of_.end()) throw Error("plan: no row reaches the output '", name, "'");
    if (it->second != kInput) add(stages_[static_cast<size_t>(it->second)].outputs, name);
  }

  const Model& model_;
  std::map<std::string, int> planned_;   // by node of the plan
  std::map<std::string, int> stage_of_;  // by value that varies
  std::vector<Ends> stages_;
};

}  // namespace

std::vector<Model> stage_models(const Model& model, const PipelinePlan& plan,
                                std::span<const std::string> nodes) {
  return StageModels(model, plan, nodes).make();
}

}  // namespace ndtrain
