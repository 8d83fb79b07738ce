// What each rank has of a bucket when it is summed.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/parallel/comm_plan.h"

namespace ndtrain {

// Where each rank's part of a bucket begins, counted from the bucket's first element, and where the
// last one's ends: whole lines of ParameterSpace::kAlign, as equal as can be.
std::vector<int64_t> slice_begins(const ParameterRange& bucket, int ranks);

// The elements of a bucket whose sum a rank makes: its slice; of a plan that reduces the bucket to
// rank 0, that rank all and the others none.
ParameterRange slice_of(const CommPlan& plan, size_t bucket, int rank, int ranks);

// A rank's slices of all buckets, rising.
std::vector<ParameterRange> slices_of_rank(const CommPlan& plan, int rank, int ranks);

}  // namespace ndtrain
