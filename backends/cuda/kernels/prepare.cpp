#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

bool only_channels_last(const ndt_tensor_type& t) {
  return is_channels_last(t) && !is_row_major(t);
}

}  // namespace

std::vector<ndt_tensor_type> inputs_of(const Node& node, int begin, int end) {
  std::vector<ndt_tensor_type> types;
  for (int i = begin; i < end; ++i) types.push_back(node.in(i));
  return types;
}

int axis_of(const Node& node, int rank) {
  const int64_t a = node.i("axis");
  if (a < -rank || a >= rank) invalid("axis ", a, " of rank ", rank);
  return static_cast<int>(a < 0 ? a + rank : a);
}

std::vector<int64_t> known_ints(const Node& node, int i, const char* what) {
  const void* data = node.need_constant(i, what);
  std::vector<int64_t> values;
  for (int64_t k = 0; k < count(node.in(i)); ++k) {
    switch (node.in(i).dtype) {
      case NDT_I64:
        values.push_back(static_cast<const int64_t*>(data)[k]);
        break;
      case NDT_I32:
        values.push_back(static_cast<const int32_t*>(data)[k]);
        break;
      case NDT_BOOL:
        values.push_back(static_cast<const uint8_t*>(data)[k]);
        break;
      default:
        unsupported("its ", what, " (input ", i, ") is of dtype ", name_of(node.in(i).dtype));
    }
  }
  return values;
}

void check_float(const ndt_tensor_type& t) {
  const bool known =
      t.dtype == NDT_F32 || t.dtype == NDT_F16 || t.dtype == NDT_BF16 || t.dtype == NDT_F64;
  if (!known) unsupported("it is not computed in ", name_of(t.dtype));
}

void check_row_major(const ndt_tensor_type& t, const char* what) {
  if (!is_row_major(t)) unsupported("its ", what, ' ', describe(t), " is not row-major");
}

void check_row_major(const Node& node) {
  for (int i = 0; i < node.inputs(); ++i) {
    if (node.has(i)) check_row_major(node.in(i), "input");
  }
  for (int i = 0; i < node.outputs(); ++i) {
    if (node.has_output(i)) check_row_major(node.out(i), "output");
  }
}

void follow_images(const ndt_device&, const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  const int rank = out[0].rank;
  const auto follows = [&](int i) {
    return node.has(i) && !node.constant(i) && in[i].rank == rank;
  };
  bool last = false;
  for (int i = 0; i < node.inputs(); ++i) last |= follows(i) && only_channels_last(in[i]);
  for (int i = 0; i < node.inputs(); ++i) {
    if (follows(i)) in[i] = last ? channels_last(in[i]) : row_major(in[i]);
  }
  for (int k = 0; k < node.outputs(); ++k) {
    if (!node.has_output(k)) continue;
    out[k] = last && out[k].rank == rank ? channels_last(out[k]) : row_major(out[k]);
  }
}

void take_any(const ndt_device&, const Node& node, ndt_tensor_type*, ndt_tensor_type* out) {
  for (int k = 0; k < node.outputs(); ++k) {
    if (node.has_output(k)) out[k] = row_major(out[k]);
  }
}

}  // namespace ndtrain::cuda
