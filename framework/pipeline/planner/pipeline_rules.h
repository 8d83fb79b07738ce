// What the planner asks of a schedule of instructions: its steady state, in formulas. A schedule
// that times its own list of instructions can stand in their place, since the search asks nothing
// else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain {

// A stage has `behind` stages behind it; one alone has none. Micro-batches are parts of a
// mini-batch.
struct PipelineRule {
  std::string schedule;
  int64_t micro_batches = 1;
  // Of zb: the part of a micro-batch's passes that gradients of weights are, and how many stages
  // there may be.
  double weight_share = 0;
  int most_stages = 1;

  // Of a stage's parameters, at once: async keeps those of every mini-batch in flight, 2bw two.
  int versions(int behind) const;
  // Mini-batches whose saved values a stage holds at once; a part of one where micro-batches are.
  double in_flight(int behind) const;
  // Of a mini-batch at a stage that computes so long and whose values travel so long. Nothing else
  // is in between of stages that are as late as there are stages behind them: of async all but one
  // part travels while others are computed.
  double with_transfers(double stage_s, double transfer_s) const;
  // Of a mini-batch, where the slowest stage takes `slowest_s` for it: with a flush the first
  // stages and the last ones wait for a micro-batch to come through.
  double seconds(double slowest_s, int stages) const;
};

// What rules go by besides costs of stages.
struct PipelineRuleInput {
  int64_t least_micro_batches = 1, most_micro_batches = 1;
  int most_stages = 1;
  double weight_share = 0;  // as PipelineRule has it, of the whole model
};

// Of the schedule, with 1, 2, 4 … micro-batches, as far as these are among the input's; of "auto",
// those of all but gpipe, which 1f1b does not fall behind and takes no more memory than. Throws
// Error where there is no such schedule, which lists those there are: async, 2bw, zb, 1f1b, gpipe.
std::vector<PipelineRule> pipeline_rules(std::string_view schedule, const PipelineRuleInput& input);

}  // namespace ndtrain
