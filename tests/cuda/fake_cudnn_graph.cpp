#include "tests/cuda/fake_cudnn_graph.h"

#include <algorithm>
#include <set>

namespace ndtrain::fake {
namespace {

using Kind = DnnOperation::Kind;

[[noreturn]] void bad(const std::string& why) { refuse(CUDNN_STATUS_BAD_PARAM, why); }
[[noreturn]] void misshapen(const std::string& why) {
  refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, why);
}

DnnTensor tensor(const DnnDescriptor& d, int name) { return DnnTensor(*d.child(name)); }

// The same numbers of attributes in the same order in all three passes but for where x, w, y are.
struct ConvNames {
  Kind kind;
  int first, w, x, y;
};

ConvNames names_of(const DnnDescriptor& d) {
  switch (d.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {Kind::kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {Kind::kInput, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    default:
      return {Kind::kWeight, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  }
}

void check_conv_dims(const DnnDescriptor& how, const DnnTensor& x, const DnnTensor& w,
                     const DnnTensor& y) {
  const auto spatial = static_cast<size_t>(how.value<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  const auto strides = how.list<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto dilations = how.list<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const auto begin = how.list<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto end = how.list<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  for (const DnnTensor* t : {&x, &w, &y}) {
    if (t->dims.size() != spatial + 2) misshapen("rank of a convolution's tensor");
  }
  if (y.dims[0] != x.dims[0] || y.dims[1] != w.dims[0]) misshapen("images or channels of y");
  if (w.dims[1] < 1 || x.dims[1] % w.dims[1]) misshapen("channels of x");
  if (w.dims[0] % (x.dims[1] / w.dims[1])) misshapen("groups do not divide the output channels");
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t span = (w.dims[d + 2] - 1) * dilations[d] + 1;
    const int64_t room = x.dims[d + 2] + begin[d] + end[d] - span;
    if (room < 0 || y.dims[d + 2] != room / strides[d] + 1) misshapen("spatial dims of y");
  }
}

cudnnDataType_t compute_type(cudnnDataType_t t) {
  return t == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE
         : t == CUDNN_DATA_INT8 ? CUDNN_DATA_INT32
                                : CUDNN_DATA_FLOAT;
}

DnnOperation read_convolution(const DnnDescriptor& d) {
  const ConvNames n = names_of(d);
  const DnnPtr how = d.child(n.first + 2);
  if (how->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) bad("no convolution descriptor");
  const DnnTensor x = tensor(d, n.x), w = tensor(d, n.w), y = tensor(d, n.y);
  check_conv_dims(*how, x, w, y);
  const auto compute = how->value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  if (compute != compute_type(x.type)) bad("compute type");
  const auto scale = compute == CUDNN_DATA_DOUBLE ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  for (int i = 0; i < 2; ++i) {
    if (d.attributes.at(n.first + i).type != scale) bad("alpha or beta is not of the compute type");
  }
  if (x.type != w.type && n.kind != Kind::kWeight) {
    refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "x and w of different types");
  }
  if (n.kind == Kind::kForward) return {n.kind, {x, w}, y, how};
  if (n.kind == Kind::kInput) return {n.kind, {w, y}, x, how};
  return {n.kind, {x, y}, w, how};
}

bool broadcasts(const DnnTensor& from, const DnnTensor& to) {
  if (from.dims.size() != to.dims.size()) return false;
  for (size_t d = 0; d < to.dims.size(); ++d) {
    if (from.dims[d] != 1 && from.dims[d] != to.dims[d]) return false;
  }
  return true;
}

bool takes_two(cudnnPointwiseMode_t mode) {
  return mode < CUDNN_POINTWISE_ABS && mode != CUDNN_POINTWISE_SQRT;
}

DnnOperation read_pointwise(const DnnDescriptor& d) {
  const DnnPtr how = d.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  if (how->type != CUDNN_BACKEND_POINTWISE_DESCRIPTOR) bad("no pointwise descriptor");
  DnnOperation op{Kind::kPointwise,
                  {tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)},
                  tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
                  how};
  const bool two = d.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  if (two != takes_two(how->value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE))) {
    bad("number of a pointwise operation's inputs");
  }
  if (two) op.in.push_back(tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
  for (const DnnTensor& t : op.in) {
    if (!broadcasts(t, op.out)) misshapen("a pointwise operation's input");
  }
  return op;
}

DnnOperation read_matmul(const DnnDescriptor& d) {
  const DnnTensor a = tensor(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const DnnTensor b = tensor(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const DnnTensor c = tensor(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  const size_t rank = a.dims.size();
  if (rank < 3 || b.dims.size() != rank || c.dims.size() != rank) misshapen("rank of a product");
  const size_t m = rank - 2, n = rank - 1;
  if (a.dims[n] != b.dims[m] || c.dims[m] != a.dims[m] || c.dims[n] != b.dims[n]) {
    misshapen("dims of a product");
  }
  for (size_t i = 0; i < m; ++i) {
    if (a.dims[i] != c.dims[i] || b.dims[i] != c.dims[i]) misshapen("batch of a product");
  }
  return {Kind::kMatmul, {a, b}, c, d.child(CUDNN_ATTR_OPERATION_MATMUL_DESC)};
}

DnnOperation read_reduction(const DnnDescriptor& d) {
  const DnnTensor x = tensor(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  const DnnTensor y = tensor(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  if (!broadcasts(y, x)) misshapen("a reduction's output");
  return {Kind::kReduction, {x}, y, d.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)};
}

void add_tensor(DnnGraph& g, const DnnTensor& t) {
  for (const DnnTensor& known : g.tensors) {
    if (known.uid != t.uid) continue;
    if (!(known == t)) bad("two tensors with the id " + std::to_string(t.uid));
    return;
  }
  g.tensors.push_back(t);
}

// Operations in an order in which they can be done.
std::vector<DnnOperation> ordered(std::vector<DnnOperation> left, const std::set<int64_t>& made) {
  std::vector<DnnOperation> done;
  std::set<int64_t> there;
  while (!left.empty()) {
    const auto next = std::ranges::find_if(left, [&](const DnnOperation& op) {
      return std::ranges::all_of(
          op.in, [&](const DnnTensor& t) { return !made.count(t.uid) || there.count(t.uid); });
    });
    if (next == left.end()) bad("the operations go round in a circle");
    there.insert(next->out.uid);
    done.push_back(*next);
    left.erase(next);
  }
  return done;
}

bool lies_channels_last(const DnnTensor& t) {
  if (t.dims.size() < 4 || t.dims[1] == 1 || t.count() == t.dims[1] * t.dims[0]) return true;
  return t.strides[1] == 1;
}

bool is_attention(const DnnGraph& g) {
  std::vector<int> modes;
  for (const DnnOperation& op : g.operations) {
    modes.push_back(op.kind == Kind::kMatmul      ? -1
                    : op.kind == Kind::kReduction ? -2
                    : op.kind == Kind::kPointwise
                        ? op.settings->value<int>(CUDNN_ATTR_POINTWISE_MODE)
                        : -3);
  }
  if (modes.size() == 11 && modes[2] == CUDNN_POINTWISE_ADD) modes.erase(modes.begin() + 2);
  // The logarithm of the sums is asked for even where nobody reads it.
  return modes == std::vector<int>{-1,
                                   CUDNN_POINTWISE_MUL,
                                   -2,
                                   CUDNN_POINTWISE_SUB,
                                   CUDNN_POINTWISE_EXP,
                                   -2,
                                   CUDNN_POINTWISE_LOG,
                                   CUDNN_POINTWISE_ADD,
                                   CUDNN_POINTWISE_DIV,
                                   -1};
}

bool is_chain(const DnnGraph& g) {
  for (size_t i = 1; i < g.operations.size(); ++i) {
    const DnnOperation& op = g.operations[i];
    if (op.kind != Kind::kPointwise || !g.operations[i - 1].out.is_virtual) return false;
    if (op.in[0].uid != g.operations[i - 1].out.uid) return false;
  }
  return true;
}

}  // namespace

DnnOperation read_operation(const DnnPtr& d) {
  switch (d->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return read_convolution(*d);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return read_pointwise(*d);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return read_matmul(*d);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return read_reduction(*d);
    default:
      refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "not an operation");
  }
}

DnnGraph read_graph(const DnnDescriptor& d) {
  DnnGraph g;
  std::vector<DnnOperation> operations;
  std::set<int64_t> made;
  for (const DnnPtr& child : d.children(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    operations.push_back(read_operation(child));
    const DnnOperation& op = operations.back();
    if (op.out.by_value || !made.insert(op.out.uid).second) bad("a tensor is written twice");
    add_tensor(g, op.out);
    for (const DnnTensor& t : op.in) add_tensor(g, t);
  }
  for (const DnnTensor& t : g.tensors) {
    if (t.is_virtual && !made.count(t.uid)) {
      bad("nobody writes virtual tensor " + std::to_string(t.uid));
    }
  }
  g.operations = ordered(std::move(operations), made);
  return g;
}

DnnPattern pattern_of(const DnnGraph& g) {
  DnnPattern p;
  const DnnOperation& first = g.operations.front();
  p.type = first.in[0].type;
  p.channels = first.in[0].dims[1];
  p.channels_last = std::ranges::all_of(g.tensors, lies_channels_last);
  const bool convolves = first.kind <= Kind::kWeight;
  p.forward = first.kind == Kind::kForward;
  using Of = DnnPattern::Kind;
  if (convolves && g.operations.size() == 1) {
    p.kind = Of::kConvolution;
  } else if (p.forward && convolves && is_chain(g)) {
    p.kind = Of::kFusedConvolution;
  } else if (is_attention(g)) {
    p.kind = Of::kAttention;
  }
  return p;
}

}  // namespace ndtrain::fake
