// What a rank of a pipeline does, one thing after the other: made by a schedule, run by an
// interpreter, timed by simulate_pipeline(), drawn by pipeline_svg().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ndtrain {

enum class PipeOp : uint8_t {
  kReceiveActivation,
  kForward,
  kSendActivation,
  kReceiveGradient,
  kRecompute,
  kBackward,        // of inputs and weights; or apart:
  kBackwardInput,   // what goes to the stages in front
  kBackwardWeight,  // what stays
  kSendGradient,
  kGradSync,  // gradients are summed over the replicas of the stage
  kUpdate,
  kFlush  // everything is received and applied; from here on all is counted from 0
};

struct Instruction {
  PipeOp op = PipeOp::kFlush;
  int stage = 0;            // whose part it is: a rank may hold several
  int64_t micro_batch = 0;  // since the last flush; of kGradSync and kUpdate the last that counts
  int64_t version = 0;  // of the stage's parameters: updates since the last flush. It is computed
                        // on this one; kUpdate reads it, and makes the next
  int peer = -1;        // of messages: the stage at the other end
  bool operator==(const Instruction&) const = default;
};

bool is_send(PipeOp op);
bool is_receive(PipeOp op);
bool is_computing(PipeOp op);  // neither a message nor an exchange nor a flush

// "F" forward, "R" recompute, "B" backward, of inputs alone too, "W" of weights, "U" update, "G"
// exchange of gradients; "" for messages and the flush.
std::string_view symbol(PipeOp op);
// For people: "the activation of micro-batch 3 from stage 1", "the update of version 2".
std::string describe(const Instruction& i);

}  // namespace ndtrain
