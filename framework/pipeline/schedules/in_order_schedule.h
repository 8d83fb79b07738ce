// What the schedules with one stage a rank have in common. Two numbers tell them apart: how many
// micro-batches a stage is ahead of its backward passes, and how many updates it is late.
#pragma once

#include "framework/pipeline/schedules/instruction_list.h"
#include "framework/pipeline/schedules/pipeline_schedule.h"

namespace ndtrain {

// As many micro-batches are forwarded as ahead() has it and as there are versions for; then one is
// taken back, and so on. Neither number may be larger for a later stage. Then nobody waits in a
// circle: in front of a backward pass a later stage has no forward pass that an earlier one has
// behind the same backward pass.
class InOrderSchedule : public PipelineSchedule {
 public:
  bool synchronous() const override { return true; }
  int delay(const PipeShape&, int /*stage*/) const override { return 0; }
  std::vector<Instruction> instructions(const PipeShape& shape, int rank) const override;
  int64_t most_in_flight(const PipeShape& shape, int stage) const override;

 protected:
  virtual int64_t ahead(const PipeShape& shape, int stage) const = 0;
  // Where backward passes of weights are apart: how many micro-batches they are behind those of
  // inputs. None of a mini-batch is left when it ends.
  virtual int64_t weights_behind(const PipeShape&, int /*stage*/) const { return 0; }
  virtual bool splits_backward() const { return false; }

 private:
  void take_back(InstructionList& list, const PipeShape& shape, int stage,
                 int64_t micro_batch) const;
};

}  // namespace ndtrain
