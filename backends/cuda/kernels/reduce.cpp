// Reductions, ArgMax and ArgMin, and the pools over whole planes: any layouts.
#include "backends/cuda/kernels/reduce.h"

#include <algorithm>
#include <limits>
#include <map>

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
void set_limits(Start& lowest, Start& highest) {
  using Limits = std::numeric_limits<T>;
  lowest = {-kInfinity, static_cast<int64_t>(Limits::lowest()),
            static_cast<uint64_t>(Limits::lowest())};
  highest = {kInfinity, static_cast<int64_t>(Limits::max()), static_cast<uint64_t>(Limits::max())};
}

Start start_of(Fold fold, ndt_dtype t) {
  if (fold == Fold::kAdd) return {};
  if (fold == Fold::kMul) return {1, 1, 1};
  Start lowest, highest;
  switch (t) {
    case NDT_I8:
      set_limits<int8_t>(lowest, highest);
      break;
    case NDT_U8:
      set_limits<uint8_t>(lowest, highest);
      break;
    case NDT_I16:
      set_limits<int16_t>(lowest, highest);
      break;
    case NDT_U16:
      set_limits<uint16_t>(lowest, highest);
      break;
    case NDT_I32:
      set_limits<int32_t>(lowest, highest);
      break;
    case NDT_U32:
      set_limits<uint32_t>(lowest, highest);
      break;
    case NDT_U64:
      set_limits<uint64_t>(lowest, highest);
      break;
    case NDT_BOOL:
      set_limits<bool>(lowest, highest);
      break;
    default:
      set_limits<int64_t>(lowest, highest);
  }
  return fold == Fold::kMin ? highest : lowest;
}

// x with the dims of `axes` folded, y with them as 1 or gone.
void set_walks(Reduction& r, const ndt_tensor_type& x, const ndt_tensor_type& y,
               const std::vector<bool>& folds) {
  if (x.channel_block > 1 || y.channel_block > 1) unsupported("blocks of channels");
  std::vector<Steps> kept, folded;
  const bool keeps = y.rank == x.rank;
  for (int d = 0, k = 0; d < x.rank; ++d) {
    if (folds[static_cast<size_t>(d)]) {
      folded.push_back({x.dims[d], x.strides[d], {x.strides[d]}});
      k += keeps ? 1 : 0;
    } else {
      kept.push_back({x.dims[d], y.strides[k++], {x.strides[d]}});
    }
  }
  r.kept = walk(std::move(kept));
  r.folded = walk(std::move(folded));
  r.in = x.dtype;
  r.out = y.dtype;
  r.computed = class_of(x.dtype);
}

std::vector<bool> folds_of(const Node& node) {
  const int rank = node.in(0).rank;
  std::vector<int64_t> axes;
  if (node.has(1)) {
    axes = known_ints(node, 1, "axes");
  } else if (node.has_attr("axes")) {
    const auto list = node.ints("axes");
    axes.assign(list.begin(), list.end());
  }
  const bool none = axes.empty();
  const bool noop = node.has_attr("noop_with_empty_axes") && node.i("noop_with_empty_axes") != 0;
  std::vector<bool> folds(static_cast<size_t>(rank), none && !noop);
  for (const int64_t a : axes) {
    if (a < -rank || a >= rank) invalid("axes name dim ", a);
    folds[static_cast<size_t>(a < 0 ? a + rank : a)] = true;
  }
  return folds;
}

struct Kind {
  Fold fold;
  Term term;
  Finish finish;
};

const Kind& kind_of(std::string_view op) {
  static const std::map<std::string_view, Kind> table = {
      {"ReduceSum", {Fold::kAdd, Term::kSame, Finish::kPlain}},
      {"ReduceMean", {Fold::kAdd, Term::kSame, Finish::kMean}},
      {"ReduceMax", {Fold::kMax, Term::kSame, Finish::kPlain}},
      {"ReduceMin", {Fold::kMin, Term::kSame, Finish::kPlain}},
      {"ReduceProd", {Fold::kMul, Term::kSame, Finish::kPlain}},
      {"ReduceL1", {Fold::kAdd, Term::kAbs, Finish::kPlain}},
      {"ReduceL2", {Fold::kAdd, Term::kSquare, Finish::kSqrt}},
      {"ReduceSumSquare", {Fold::kAdd, Term::kSquare, Finish::kPlain}},
      {"ReduceLogSum", {Fold::kAdd, Term::kSame, Finish::kLog}},
      {"ReduceLogSumExp", {Fold::kAdd, Term::kExp, Finish::kLogPlusTop}},
      {"GlobalAveragePool", {Fold::kAdd, Term::kSame, Finish::kMean}},
      {"GlobalMaxPool", {Fold::kMaxNumber, Term::kSame, Finish::kPlain}},
  };
  return table.at(op);
}

Reduction reduction_of(const Node& node, const std::vector<bool>& folds) {
  const Kind& kind = kind_of(node.op());
  Reduction r{.fold = kind.fold, .term = kind.term, .finish = kind.finish};
  set_walks(r, node.in(0), node.out(), folds);
  r.start = start_of(r.fold, r.in);
  return r;
}

std::unique_ptr<Kernel> start(const Reduction& r) {
  auto k = kernel([r](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
    r.run(in[0], nullptr, work, out[0], stream.stream);
  });
  k->workspace_bytes = r.workspace();
  return k;
}

// log sum exp(x) = top + log sum exp(x - top), the maximum first, so that exp does not overflow. Of
// integers, in f64.
std::unique_ptr<Kernel> log_sum_exp(Reduction r) {
  if (r.computed != Class::kFloat) r.computed = Class::kDouble;
  const size_t tops = static_cast<size_t>(r.kept.count) * sizeof(double);
  Reduction top = r;
  top.fold = Fold::kMax;
  top.term = Term::kSame;
  top.finish = Finish::kFiniteOrZero;
  top.start.floating = -kInfinity;
  top.out = r.computed == Class::kFloat ? NDT_F32 : NDT_F64;
  // The tops lie in the order of the outputs.
  int64_t step = 1;
  for (int d = top.kept.rank; d-- > 0;) {
    top.kept.dims[d].out = step;
    step *= top.kept.dims[d].extent.n;
  }
  auto k = kernel(
      [r, top, tops](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
        void* partial = static_cast<char*>(work) + tops;
        top.run(in[0], nullptr, partial, work, stream.stream);
        r.run(in[0], work, partial, out[0], stream.stream);
      });
  k->workspace_bytes = tops + std::max(r.workspace(), top.workspace());
  return k;
}

}  // namespace

std::unique_ptr<Kernel> prepare_reduce(ndt_device&, const Node& node) {
  const Reduction r = reduction_of(node, folds_of(node));
  return r.term == Term::kExp ? log_sum_exp(r) : start(r);
}

std::unique_ptr<Kernel> prepare_global_pool(ndt_device&, const Node& node) {
  const ndt_tensor_type& x = node.in(0);
  if (x.rank < 2 || node.out().rank != x.rank) invalid(describe(x), " has no planes");
  std::vector<bool> folds(static_cast<size_t>(x.rank), true);
  folds[0] = folds[1] = false;
  return start(reduction_of(node, folds));
}

std::unique_ptr<Kernel> prepare_arg(ndt_device&, const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  const int axis = axis_of(node, x.rank);
  if (count(x) > 0 && x.dims[axis] < 1) invalid("axis ", axis, " is empty");
  std::vector<bool> folds(static_cast<size_t>(x.rank), false);
  folds[static_cast<size_t>(axis)] = true;
  Reduction r;
  set_walks(r, x, y, folds);
  const ArgExtreme a{.lines = r.kept,
                     .n = x.dims[axis],
                     .step = x.strides[axis],
                     .want_max = node.op() == "ArgMax",
                     .last = node.i("select_last_index") != 0,
                     .computed = r.computed,
                     .in = x.dtype};
  return kernel([a](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    a.run(in[0], static_cast<int64_t*>(out[0]), stream.stream);
  });
}

}  // namespace ndtrain::cuda
