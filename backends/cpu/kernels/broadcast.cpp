#include "backends/cpu/kernels/broadcast.h"

namespace ndtrain::cpu {

BroadcastRows::BroadcastRows(const ndt_tensor_type& out, std::span<const ndt_tensor_type> inputs)
    : inputs_(static_cast<int>(inputs.size())), count_(cpu::count(out)) {
  // Strides of each input along the dims of the output, 0 where it is broadcast.
  std::vector<std::vector<int64_t>> strides;
  for (int i = 0; i < inputs_; ++i) {
    const ndt_tensor_type& t = inputs[i];
    if (t.rank > out.rank) invalid("input ", i, " has more dims than the output");
    std::vector<int64_t> s(static_cast<size_t>(out.rank), 0);
    int64_t stride = 1;
    for (int d = t.rank - 1, o = out.rank - 1; d >= 0; --d, --o) {
      if (t.dims[d] != 1 && t.dims[d] != out.dims[o]) {
        invalid("input ", i, " does not broadcast to the output");
      }
      if (t.dims[d] != 1) s[o] = stride;
      stride *= t.dims[d];
    }
    if (stride == count_) whole_inputs_ |= uint64_t{1} << i;
    strides.push_back(std::move(s));
  }
  std::vector<std::vector<int64_t>> kept;  // {extent, steps…}, outermost first
  for (int o = 0; o < out.rank; ++o) {
    if (out.dims[o] == 1) continue;
    std::vector<int64_t> dim = {out.dims[o]};
    for (const auto& s : strides) dim.push_back(s[o]);
    bool merge = !kept.empty();
    for (int i = 1; merge && i <= inputs_; ++i) merge = kept.back()[i] == dim[i] * dim[0];
    if (merge) {
      dim[0] *= kept.back()[0];
      kept.back() = std::move(dim);
    } else {
      kept.push_back(std::move(dim));
    }
  }
  if (kept.empty()) kept.emplace_back(inputs_ + 1, 1);
  rank_ = static_cast<int>(kept.size());
  for (int d = 0; d < rank_; ++d) {
    dims_[d] = kept[d][0];
    steps_.insert(steps_.end(), kept[d].begin() + 1, kept[d].end());
  }
}

}  // namespace ndtrain::cpu
