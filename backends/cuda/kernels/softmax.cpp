#include "backends/cuda/kernels/softmax.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

Softmax kind_of(std::string_view op) {
  if (op == "Softmax") return Softmax::kSoftmax;
  if (op == "LogSoftmax") return Softmax::kLogSoftmax;
  return op == "SoftmaxGrad" ? Softmax::kSoftmaxGrad : Softmax::kLogSoftmaxGrad;
}

CrossEntropy cross_entropy_of(const Node& node, int logits) {
  check_row_major(node);
  const ndt_tensor_type& x = node.in(logits);
  check_float(x);
  if (x.rank != 2) invalid("logits ", describe(x), " are not [N, classes]");
  if (node.in(logits + 1).dtype != NDT_I64) invalid("labels are not i64");
  if (node.in(logits + 2).dtype != NDT_F32) invalid("weights are not f32");
  const ndt_tensor_type& labels = node.in(logits + 1);
  return {.rows = x.dims[0],
          .classes = x.dims[1],
          .of_row = labels.rank == 2 ? labels.dims[1] : 1,
          .smoothing = node.f("smoothing"),
          .t = x.dtype};
}

}  // namespace

std::unique_ptr<Kernel> prepare_softmax(ndt_device&, const Node& node) {
  check_row_major(node);
  const ndt_tensor_type& x = node.in(0);
  check_float(x);
  const int axis = axis_of(node, x.rank);
  Lines lines{.n = x.dims[axis], .inner = count(x, axis + 1)};
  lines.rows = lines.n == 0 ? 0 : count(x) / lines.n;
  const bool gradient = node.inputs() == 2;
  auto k = kernel([=, kind = kind_of(node.op()), t = x.dtype](
                      ndt_stream& stream, const void* const* in, void* const* out, void*) {
    softmax(kind, t, lines, in[0], gradient ? in[1] : nullptr, out[0], stream.stream);
  });
  k->in_place_inputs = gradient ? 0b11 : 1;
  return k;
}

std::unique_ptr<Kernel> prepare_cross_entropy(ndt_device&, const Node& node) {
  const CrossEntropy c = cross_entropy_of(node, 0);
  auto k = kernel([c](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
    c.loss(in[0], static_cast<const int64_t*>(in[1]), static_cast<const float*>(in[2]), work,
           out[0], stream.fault, stream.stream);
  });
  k->workspace_bytes = c.workspace();
  return k;
}

std::unique_ptr<Kernel> prepare_cross_entropy_grad(ndt_device&, const Node& node) {
  const CrossEntropy c = cross_entropy_of(node, 1);
  return kernel([c](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    c.gradient(in[0], in[1], static_cast<const int64_t*>(in[2]), static_cast<const float*>(in[3]),
               out[0], stream.fault, stream.stream);
  });
}

}  // namespace ndtrain::cuda
