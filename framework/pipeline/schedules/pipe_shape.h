// What a schedule has to know of a pipeline: how many stages, who hands values to whom, and how
// many micro-batches there are. Nothing of what they cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ndtrain {

// Stage `from` hands values to stage `to`, all in one message for a micro-batch. Two stages that
// read a value of a third one have an edge without it: its gradient goes from one to the other.
struct StageEdge {
  int from = 0, to = 0;
  bool gradient = true;    // comes back, where `from` is trained
  bool activation = true;  // goes there
  bool operator==(const StageEdge&) const = default;
};

struct PipeShape {
  int stages = 1;
  int chunks = 1;                  // stages of one rank, which are ranks() apart
  int64_t micro_batches = 1;       // of a mini-batch
  int64_t mini_batches = 1;        // until the flush
  std::vector<StageEdge> edges;    // none: a chain
  std::vector<bool> recompute;     // by stage; none: nowhere
  std::vector<bool> forward_only;  // by stage: it is frozen, and so are all that it reads

  // A rank is a place in the pipeline. Replicas of it have the same instructions.
  int ranks() const { return stages / chunks; }
  int rank_of(int stage) const { return stage % ranks(); }
  bool recomputes(int stage) const {
    return !recompute.empty() && recompute[static_cast<size_t>(stage)];
  }
  bool trains(int stage) const {
    return forward_only.empty() || !forward_only[static_cast<size_t>(stage)];
  }
  int64_t all_micro_batches() const { return micro_batches * mini_batches; }
};

// `shape.edges`, or the chain's.
std::vector<StageEdge> edges_of(const PipeShape& shape);
bool returns_gradient(const PipeShape& shape, const StageEdge& edge);

// Throws Error: without stages or micro-batches, or with too many of these, with stages that the
// ranks cannot share alike, with an edge that goes back or is there twice, with a stage that waits
// for a gradient in vain.
void validate(const PipeShape& shape);

}  // namespace ndtrain
