// The list of one rank while a schedule writes it: the schedule says what is computed, and messages
// are put around that.
#pragma once

#include <vector>

#include "framework/pipeline/schedules/instruction.h"
#include "framework/pipeline/schedules/pipe_shape.h"

namespace ndtrain {

// A stage that only runs forward does so on version 0; all else of it is left out. Borrows the
// shape.
class InstructionList {
 public:
  // Throws Error where validate() does, or there is no such rank.
  InstructionList(const PipeShape& shape, int rank);

  void forward(int stage, int64_t micro_batch, int64_t version);
  void backward(int stage, int64_t micro_batch, int64_t version);
  void backward_input(int stage, int64_t micro_batch, int64_t version);
  void backward_weight(int stage, int64_t micro_batch, int64_t version);
  // Of mini-batch t, so of version t.
  void update(int stage, int64_t mini_batch);
  // The whole list.
  std::vector<Instruction> flushed();

 private:
  void take_back(PipeOp op, int stage, int64_t micro_batch, int64_t version);

  const PipeShape& shape_;
  const int rank_;
  std::vector<StageEdge> edges_;  // messages alone
  std::vector<Instruction> list_;
};

}  // namespace ndtrain
