// Pad. A constant border: fill, then copy what remains of x into it. The other modes look up, per
// axis, where each position comes from.
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

// Elements put before each dim of x (cropped where negative).
std::vector<int64_t> pads_before(const Node& node) {
  const ndt_tensor_type& x = node.in(0);
  const std::vector<int64_t> pads = node.known_ints(1);
  std::vector<int64_t> before(static_cast<size_t>(x.rank), 0), axes;
  if (node.has(3)) {
    axes = node.known_ints(3);
  } else {
    for (int d = 0; d < x.rank; ++d) axes.push_back(d);
  }
  if (pads.size() != 2 * axes.size()) invalid(pads.size(), " pads for ", axes.size(), " axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t d = axes[i] < 0 ? axes[i] + x.rank : axes[i];
    if (d < 0 || d >= x.rank) invalid("axes name dim ", axes[i]);
    before[d] = pads[i];
  }
  return before;
}

std::unique_ptr<Kernel> pad_constant(const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  const std::vector<int64_t> before = pads_before(node);
  const std::vector<int64_t> from = strides_of(dims_of(x)), to = strides_of(dims_of(y));
  std::vector<StridedCopy::Dim> moves;
  int64_t from_offset = 0, to_offset = 0;
  for (int d = 0; d < x.rank; ++d) {
    const int64_t begin = std::max<int64_t>(0, -before[d]);  // first element of x that stays
    const int64_t put = std::max<int64_t>(0, before[d]);
    const int64_t n = std::max<int64_t>(0, std::min(x.dims[d] - begin, y.dims[d] - put));
    moves.push_back({n, from[d], to[d]});
    from_offset += begin * from[d];
    to_offset += put * to[d];
  }
  const StridedCopy copy(moves, size_of(x.dtype), from_offset, to_offset);
  const int64_t n = count(y);
  const bool covered = copy.count() == n;
  return for_word(size_of(x.dtype), [&]<typename Word>() {
    return kernel([copy, n, covered, has_value = node.has(2)](const void* const* in,
                                                              void* const* out, void*) {
      const Word value = has_value ? *as<Word>(in[2]) : Word{};
      Word* y_data = as<Word>(out[0]);
      if (!covered) {
        parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
          std::fill(y_data + begin, y_data + end, value);
        });
      }
      copy.run(in[0], out[0]);
    });
  });
}

// Where position i of a padded axis, counted from the first of its n elements, comes from.
int64_t source(int64_t i, int64_t n, std::string_view mode) {
  if (i >= 0 && i < n) return i;
  if (mode == "edge") return i < 0 ? 0 : n - 1;
  if (mode == "wrap") return (i % n + n) % n;
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1), at = (i % period + period) % period;
  return at < n ? at : period - at;
}

// Per dim of y: offsets into x. y is walked row by row.
class ContinuedPad final : public Kernel {
 public:
  explicit ContinuedPad(const Node& node)
      : rank_(node.out().rank), count_(count(node.out())), bytes_(size_of(node.out().dtype)) {
    const std::vector<int64_t> before = pads_before(node),
                               strides = strides_of(dims_of(node.in(0)));
    for (int d = 0; d < rank_; ++d) {
      std::vector<int64_t> table;
      for (int64_t i = 0; i < node.out().dims[d]; ++i) {
        table.push_back(strides[d] * source(i - before[d], node.in(0).dims[d], node.s("mode")));
      }
      offsets_.push_back(std::move(table));
    }
    if (rank_ == 0) offsets_.push_back({0});
  }

  void run(const void* const* in, void* const* out, void*) const override {
    if (count_ == 0) return;
    for_word(bytes_, [&]<typename Word>() { run_as(as<Word>(in[0]), as<Word>(out[0])); });
  }

 private:
  template <typename Word>
  void run_as(const Word* x, Word* y) const {
    const std::vector<int64_t>& row = offsets_.back();
    const int64_t n = static_cast<int64_t>(row.size());
    const int64_t grain = std::max<int64_t>(1, kElementGrain / n);
    parallel_for(count_ / n, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t base = 0, rest = r;
        for (int d = rank_ - 2; d >= 0; --d) {
          const int64_t extent = static_cast<int64_t>(offsets_[d].size());
          base += offsets_[d][rest % extent];
          rest /= extent;
        }
        for (int64_t i = 0; i < n; ++i) y[r * n + i] = x[base + row[i]];
      }
    });
  }

  int rank_;
  int64_t count_;
  size_t bytes_;
  std::vector<std::vector<int64_t>> offsets_;
};

std::unique_ptr<Kernel> pad_kernel(const Node& node) {
  const std::string_view mode = node.s("mode");
  if (mode == "constant") {
    if (node.has(2) && node.in(2).dtype != node.in(0).dtype) invalid("a value of another dtype");
    return pad_constant(node);
  }
  if (mode != "reflect" && mode != "edge" && mode != "wrap") unsupported("mode ", mode);
  return std::make_unique<ContinuedPad>(node);
}

const Registered registered{{"Pad", pad_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
