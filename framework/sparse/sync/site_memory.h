// Sums over the ranks of a site that are processes of one host, in memory that they share.
#pragma once

#include <memory>
#include <string>

#include "framework/comm/comm_op.h"
#include "framework/comm/communicator.h"
#include "framework/comm/host_memory.h"
#include "framework/train/parameter_range.h"

namespace ndtrain {

// Each rank has a place in it for all its values: f32, ranks x values x 4 bytes in all. Of a range
// each adds up a part (equal_parts()), in the order of a tree of the ranks, so that the bytes are
// those of CommOp::kAllReduce:
//
//   lay_down(), then a barrier, add_up() of this rank's part, another barrier, take() of the
//   others'
//
// Behind take() the same range may be laid down again, without waiting for ranks that still take.
// The barriers, which are the caller's, order memory: a message is sent and received between what
// one rank writes and another reads. One thread.
class SiteMemory {
 public:
  // Collective of these ranks, which give the same. On all of them null where one does not find in
  // `directory` (host_memory.h) what the first of them has made there: it is of another host, or
  // there is no room for it. The first says in the log which it is. Throws RankLost.
  static std::unique_ptr<SiteMemory> share(Communicator& communicator, const RankGroup& ranks,
                                           int64_t values, const std::string& directory);

  // Of a range of the values, of which `own` is where this rank has the first.
  void lay_down(ParameterRange range, const float* own);
  void add_up(ParameterRange range, float* own);
  void take(ParameterRange range, float* own);

 private:
  SiteMemory(std::unique_ptr<HostMemory> memory, size_t rank, size_t ranks, int64_t values)
      : memory_(std::move(memory)), rank_(rank), ranks_(ranks), values_(values) {}
  float* place(size_t rank, int64_t at) const;

  const std::unique_ptr<HostMemory> memory_;
  const size_t rank_, ranks_;
  const int64_t values_;
};

}  // namespace ndtrain
