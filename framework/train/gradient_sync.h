// How the gradients of a step become the parameters of a later one. A Trainer says what happens in
// its step; a GradientSync decides what is exchanged, when, and when updates are applied.
#pragma once

#include <cstddef>
#include <span>

#include "framework/train/optimizer.h"

namespace ndtrain {

// What a shard says of its part of a step; as floats, they travel so.
struct ShardReport {
  float loss = 0;    // of its rows, each times its weight
  float hits = 0;    // rows whose class it finds
  float top5 = 0;    // rows whose class is among its five best
  float finite = 1;  // 0: a gradient is not finite (asked in 16 bits only)
  float sound = 1;   // 0: an input is not finite (asked when the loss is not)
};

// A step is begin(), the calls of its run, add_up_statistics(), share(), then backward_done() or
// skip(). Called in the thread of the Trainer. Each may throw Error.
class GradientSync {
 public:
  virtual ~GradientSync() = default;

  // A step begins; `hyper` is of its update, whenever that is applied.
  virtual void begin(const HyperParameters& hyper) = 0;

  // Of slots of the parameters, in orders fixed at plan time (framework/runtime/hooks.h has the
  // contract of `stream`). Before the first node that reads the slot's values: on return, or behind
  // what is queued on the stream, they are those that this step computes with.
  virtual void before_read(size_t /*slot*/, ndt_stream* /*stream*/) {}
  // The loss of the last shard is there: what follows is the backward pass.
  virtual void forward_done() {}
  // The slot's gradient is complete here: the sum over its rows of weight times gradient.
  virtual void gradient_ready(size_t /*slot*/, ndt_stream* /*stream*/) {}
  // Whether it wants these three. Without them a run may be replayed from a recording.
  virtual bool follows_the_run() const { return true; }

  // Where there are running statistics: the first of their sums becomes the sum over the shards of
  // all ranks.
  virtual void add_up_statistics() {}
  // Of all shards of the step, in their order: fills in those of other ranks.
  virtual void share(std::span<ShardReport> /*reports*/) {}
  // All gradients are complete, and the step is applied.
  virtual void backward_done() = 0;
  // All gradients are complete, and the step is left out.
  virtual void skip() = 0;

  // On return every update of the steps so far is applied here.
  virtual void flush() = 0;

  // In all, from the end of a backward pass until the norm was known that gradients are clipped by.
  virtual double clip_exposed_s() const { return 0; }
};

}  // namespace ndtrain
