#include "framework/pipeline/schedules/instruction.h"

#include "framework/core/error.h"

namespace ndtrain {
namespace {

std::string_view noun(PipeOp op) {
  switch (op) {
    case PipeOp::kReceiveActivation:
    case PipeOp::kSendActivation:
      return "activation";
    case PipeOp::kReceiveGradient:
    case PipeOp::kSendGradient:
      return "gradient";
    case PipeOp::kForward:
      return "forward pass";
    case PipeOp::kRecompute:
      return "repeated forward pass";
    case PipeOp::kBackward:
    case PipeOp::kBackwardInput:
      return "backward pass";
    case PipeOp::kBackwardWeight:
      return "backward pass of weights";
    case PipeOp::kGradSync:
      return "exchange of gradients";
    case PipeOp::kUpdate:
      return "update";
    case PipeOp::kFlush:
      return "flush";
  }
  throw Error("pipeline: an instruction of unknown kind ", static_cast<int>(op));
}

}  // namespace

bool is_send(PipeOp op) { return op == PipeOp::kSendActivation || op == PipeOp::kSendGradient; }

bool is_receive(PipeOp op) {
  return op == PipeOp::kReceiveActivation || op == PipeOp::kReceiveGradient;
}

bool is_computing(PipeOp op) {
  return !is_send(op) && !is_receive(op) && op != PipeOp::kGradSync && op != PipeOp::kFlush;
}

std::string_view symbol(PipeOp op) {
  switch (op) {
    case PipeOp::kForward:
      return "F";
    case PipeOp::kRecompute:
      return "R";
    case PipeOp::kBackward:
    case PipeOp::kBackwardInput:
      return "B";
    case PipeOp::kBackwardWeight:
      return "W";
    case PipeOp::kUpdate:
      return "U";
    case PipeOp::kGradSync:
      return "G";
    default:
      return "";
  }
}

std::string describe(const Instruction& i) {
  std::string text = "the " + std::string(noun(i.op));
  if (i.op == PipeOp::kFlush) return text;
  if (i.op == PipeOp::kUpdate || i.op == PipeOp::kGradSync) {
    text += " of version " + std::to_string(i.version);
  } else {
    text += " of micro-batch " + std::to_string(i.micro_batch);
  }
  if (is_receive(i.op)) return text + " from stage " + std::to_string(i.peer);
  if (is_send(i.op)) return text + " to stage " + std::to_string(i.peer);
  return text + " of stage " + std::to_string(i.stage);
}

}  // namespace ndtrain
