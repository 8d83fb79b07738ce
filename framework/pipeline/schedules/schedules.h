// The schedules, a file each. F, B and W are the times of a micro-batch: forward, backward of
// inputs, backward of weights; S stages, each the same, and sends that take no time.
#pragma once

#include <memory>

#include "framework/pipeline/schedules/pipeline_schedule.h"

namespace ndtrain {

// All micro-batches forward, then all back (Huang et al., "GPipe", NeurIPS'19); back in the order
// in which they came, so that gradients add up as in one process. A mini-batch waits (S-1)(F+B+W).
std::unique_ptr<PipelineSchedule> gpipe_schedule();

// One forward, one backward, with a flush (Fan et al., "DAPPLE", PPoPP'21; Narayanan et al.,
// "PipeDream-Flush" in "Memory-efficient pipeline-parallel DNN training", ICML'21). Waits as GPipe
// does, with S-s micro-batches in flight at stage s instead of all.
std::unique_ptr<PipelineSchedule> one_forward_one_backward_schedule();

// Several stages of a rank, those of rank r are r, r + ranks …, so that a pass crosses all ranks as
// often (Narayanan et al., "Efficient large-scale language model training on GPU clusters using
// Megatron-LM", SC'21). With v stages a rank it waits (ranks-1)(F+B+W)/v, where F, B, W are a
// rank's. Micro-batches are done in groups of as many as there are ranks; the last group may be
// smaller.
std::unique_ptr<PipelineSchedule> interleaved_schedule();

// Zero bubble, ZB-H1: backward passes of weights wait until there is nothing else to do, with no
// more in flight at any stage than 1F1B has at the first (Qi et al., "Zero bubble pipeline
// parallelism", ICLR'24). Waits (S-1)(F+B-W).
std::unique_ptr<PipelineSchedule> zero_bubble_schedule();

// Two versions, all stages one update late, so that mini-batches follow each other without a flush
// (Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML'21). With fewer
// micro-batches than stages it waits for versions.
std::unique_ptr<PipelineSchedule> two_buffered_weights_schedule();

// Asynchronous 1F1B: stage s is S-1-s updates late, and forwards as many mini-batches ahead, on the
// newest version (Narayanan et al., "PipeDream", SOSP'19; AshPipe, HPC Asia'24). Waits only where
// it begins and where it is drained.
std::unique_ptr<PipelineSchedule> asynchronous_schedule();

// One micro-batch at a time in the whole pipeline: model parallelism without input pipelining.
std::unique_ptr<PipelineSchedule> sequential_schedule();

}  // namespace ndtrain
