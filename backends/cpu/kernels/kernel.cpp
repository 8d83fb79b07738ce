#include "backends/cpu/kernels/kernel.h"

namespace ndtrain::cpu {
namespace {

void check_layout(const ndt_tensor_type& t, const char* side, int port, bool gaps) {
  if (t.dtype == NDT_ABSENT) return;
  if (t.channel_block > 1) unsupported(side, port, " is blocked by ", t.channel_block, " channels");
  if (count(t) == 0) return;
  int64_t stride = 1;
  for (int d = t.rank; d-- > 0; stride *= t.dims[d]) {
    const bool fits = t.strides[d] == stride || (gaps && d == 0 && t.strides[0] > stride);
    if (t.dims[d] > 1 && !fits) unsupported(side, port, " is not row-major");
  }
}

}  // namespace

size_t bytes(const ndt_tensor_type& t) { return static_cast<size_t>(count(t) * size_of(t.dtype)); }

Node::Node(const ndt_node& node, bool gaps, bool less_memory)
    : plugin::Node(node), less_memory_(less_memory) {
  for (int i = 0; i < node.n_inputs; ++i) check_layout(node.inputs[i], "input ", i, false);
  for (int i = 0; i < node.n_outputs; ++i) check_layout(node.outputs[i], "output ", i, gaps);
}

std::vector<double> Node::known_doubles(int i) const {
  const void* data = constant(i);
  if (!data) unsupported("input ", i, " must be known in advance");
  const ndt_tensor_type& t = in(i);
  std::vector<double> values(static_cast<size_t>(count(t)));
  auto read = [&]<typename T>() {
    std::transform(as<T>(data), as<T>(data) + values.size(), values.begin(),
                   [](T x) { return static_cast<double>(x); });
  };
  t.dtype == NDT_BOOL ? read.operator()<uint8_t>() : for_number(t.dtype, op(), read);
  return values;
}

std::vector<int64_t> Node::known_ints(int i) const {
  const void* data = constant(i);
  if (!data) unsupported("input ", i, " must be known in advance");
  const ndt_tensor_type& t = in(i);
  std::vector<int64_t> values(static_cast<size_t>(count(t)));
  auto read = [&]<typename T>() {
    std::transform(as<T>(data), as<T>(data) + values.size(), values.begin(),
                   [](T x) { return static_cast<int64_t>(x); });
  };
  t.dtype == NDT_BOOL ? read.operator()<uint8_t>() : for_int(t.dtype, op(), read);
  return values;
}

}  // namespace ndtrain::cpu
