// The forward part of each stage of a plan as a model of its own.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/graph/model.h"
#include "framework/pipeline/planner/pipeline_plan.h"

namespace ndtrain {

// Inputs and outputs are named as the values of `model` that go between, and so are its own inputs
// wherever they are read: one after the other the stages compute what the model does. `nodes` are
// those that a plan of the model has (StepNodes::names); what of the model is none of these is with
// what it reads. Throws Error naming the node: one of the plan that the model has not, one that is
// in no stage, a stage without a node of the model (the loss alone), an edge that goes back.
std::vector<Model> stage_models(const Model& model, const PipelinePlan& plan,
                                std::span<const std::string> nodes);

}  // namespace ndtrain
