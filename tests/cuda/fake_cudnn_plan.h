// From a graph to a run of the fake cuDNN: heuristics, engines, plans, variant packs.
#pragma once

#include "tests/cuda/fake_cudnn_graph.h"

namespace ndtrain::fake {

// Refuse a descriptor that is complete but cannot be.
void check_descriptor(const DnnDescriptor& d);

// What is asked of finalized descriptors that were not set: results of heuristics, notes of
// engines, sizes of workspaces.
bool computed_attribute(const DnnPtr& d, int name, DnnAttribute& answer);

// Checks the variant pack against the plan and gives its work to the stream.
void execute(cudaStream_t stream, const DnnDescriptor& plan, const DnnDescriptor& pack);

}  // namespace ndtrain::fake
