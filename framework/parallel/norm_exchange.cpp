#include "framework/parallel/norm_exchange.h"

#include <algorithm>
#include <cstring>

#include "framework/parallel/slices.h"

namespace ndtrain {
namespace {

constexpr size_t kFloats = sizeof(double) / sizeof(float);

}  // namespace

NormExchange::NormExchange(Communicator& communicator, const RankGroup& group, const CommPlan& plan,
                           int64_t elements)
    : communicator_(communicator), group_(group), leaves_(norm_leaves(elements)), begins_{0} {
  const auto ranks = static_cast<int>(group.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (const ParameterRange& slice : slices_of_rank(plan, rank, ranks)) {
      for (const Subtree& node : norm_nodes(slice, elements)) {
        parts_.push_back({node, parts_.size() * kFloats});
      }
    }
    begins_.push_back(static_cast<int64_t>(parts_.size() * kFloats));
  }
  travels_.resize(parts_.size() * kFloats);
  std::ranges::sort(parts_, {}, [](const Part& part) { return part.node.begin; });
}

void NormExchange::enqueue() {
  CommOp op{.kind = CommOp::Kind::kAllGather, .group = group_, .name = "norm"};
  op.data = travels_;
  op.part_begin = begins_;
  op_ = communicator_.enqueue(std::move(op));
}

double NormExchange::norm(const float* gradients) {
  const auto rank =
      static_cast<size_t>(std::ranges::find(group_, communicator_.rank()) - group_.begin());
  for (const Part& part : parts_) {
    const auto at = static_cast<int64_t>(part.at);
    if (at < begins_[rank] || at >= begins_[rank + 1]) continue;
    const double squares = sum_of_squares(part.node, gradients);
    std::memcpy(travels_.data() + part.at, &squares, sizeof squares);
  }
  carry_out();
  std::vector<Subtree> nodes;
  std::vector<double> squares(parts_.size());
  for (size_t i = 0; i < parts_.size(); ++i) {
    nodes.push_back(parts_[i].node);
    std::memcpy(&squares[i], travels_.data() + parts_[i].at, sizeof squares[i]);
  }
  return norm_of(nodes, squares, leaves_);
}

void NormExchange::leave_out() { carry_out(); }

void NormExchange::carry_out() {
  communicator_.release(op_);
  communicator_.wait(op_);
}

}  // namespace ndtrain
