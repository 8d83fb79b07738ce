#include "backends/plugin/node.h"

#include <algorithm>
#include <cstring>

namespace ndtrain::plugin {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;

void check_port(const ndt_tensor_type& t, const char* side, int port) {
  if (t.dtype < NDT_ABSENT || t.dtype > NDT_BOOL) {
    invalid(side, port, " has unknown dtype ", static_cast<int>(t.dtype));
  }
  if (t.dtype == NDT_ABSENT) return;
  if (t.rank < 0 || t.rank > NDT_MAX_RANK) invalid(side, port, " has rank ", t.rank);
  int64_t elements = 1;
  for (int d = t.rank; d-- > 0;) {
    if (t.dims[d] < 0) invalid(side, port, " has extent ", t.dims[d]);
    if (t.dims[d] > 0 && elements > kMostElements / t.dims[d]) {
      invalid(side, port, " is too large");
    }
    elements *= std::max<int64_t>(t.dims[d], 1);
  }
}

// bf16: the upper half of an f32.
struct Half {
  uint16_t bits;
  explicit operator float() const {
    const uint32_t whole = uint32_t{bits} << 16;
    float x;
    std::memcpy(&x, &whole, sizeof x);
    return x;
  }
};

template <typename T>
void read(const void* from, std::vector<float>& values) {
  std::transform(static_cast<const T*>(from), static_cast<const T*>(from) + values.size(),
                 values.begin(), [](T x) { return static_cast<float>(x); });
}

}  // namespace

std::string_view name_of(ndt_dtype t) {
  static constexpr std::string_view kNames[] = {"none", "f32", "f16", "bf16", "f64", "i8",  "u8",
                                                "i16",  "u16", "i32", "u32",  "i64", "u64", "bool"};
  return t >= NDT_ABSENT && t <= NDT_BOOL ? kNames[t] : "unknown";
}

int64_t size_of(ndt_dtype t) {
  static constexpr int64_t kBytes[] = {0, 4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1};
  return t >= NDT_ABSENT && t <= NDT_BOOL ? kBytes[t] : 0;
}

int64_t count(const ndt_tensor_type& t, int begin, int end) {
  int64_t n = 1;
  for (int d = begin; d < end; ++d) n *= t.dims[d];
  return n;
}

int64_t count(const ndt_tensor_type& t, int begin) { return count(t, begin, t.rank); }

std::string describe(const ndt_tensor_type& t) {
  if (t.dtype == NDT_ABSENT) return "-";
  std::ostringstream os;
  os << name_of(t.dtype) << '[';
  for (int d = 0; d < t.rank; ++d) os << (d ? "," : "") << t.dims[d];
  os << ']';
  if (t.channel_block > 1) os << " blocked by " << t.channel_block;
  return os.str();
}

Node::Node(const ndt_node& node) : node_(node) {
  if (!node.op) invalid("node without an op");
  for (const int n : {node.n_inputs, node.n_outputs}) {
    if (n < 0 || n > NDT_MAX_PORTS) invalid(n, " ports, the limit is ", NDT_MAX_PORTS);
  }
  for (int i = 0; i < node.n_inputs; ++i) check_port(node.inputs[i], "input ", i);
  for (int i = 0; i < node.n_outputs; ++i) check_port(node.outputs[i], "output ", i);
}

const ndt_tensor_type& Node::in(int i) const {
  if (!has(i)) invalid("needs input ", i);
  return node_.inputs[i];
}

const ndt_tensor_type& Node::out(int i) const {
  if (i >= outputs() || node_.outputs[i].dtype == NDT_ABSENT) invalid("needs output ", i);
  return node_.outputs[i];
}

const ndt_attr* Node::find(std::string_view name) const {
  for (int i = 0; i < node_.n_attrs; ++i) {
    if (name == node_.attrs[i].name) return &node_.attrs[i];
  }
  return nullptr;
}

const ndt_attr& Node::get(std::string_view name) const {
  if (const ndt_attr* a = find(name)) return *a;
  invalid("lacks attribute ", name);
}

int64_t Node::i(std::string_view name) const {
  const ndt_attr& a = get(name);
  if (a.n != 1) invalid("attribute ", name, " is not an integer");
  return a.i[0];
}

double Node::f(std::string_view name) const {
  const ndt_attr& a = get(name);
  if (a.n != -1) invalid("attribute ", name, " is not a float");
  return a.f;
}

std::string_view Node::s(std::string_view name) const {
  const ndt_attr& a = get(name);
  if (a.n != -2 || !a.s) invalid("attribute ", name, " is not a string");
  return a.s;
}

std::span<const int64_t> Node::ints(std::string_view name) const {
  const ndt_attr* a = find(name);
  if (!a) return {};
  if (a->n < 0) invalid("attribute ", name, " is not a list of integers");
  return {a->i, static_cast<size_t>(a->n)};
}

const void* Node::constant(int i) const {
  return node_.constants && has(i) ? node_.constants[i] : nullptr;
}

uint64_t Node::constant_id(int i) const {
  return node_.constant_ids && constant(i) ? node_.constant_ids[i] : 0;
}

const void* Node::need_constant(int i, std::string_view what) const {
  if (const void* data = constant(i)) return data;
  unsupported("its ", what, " (input ", i, ") is not constant");
}

std::vector<float> Node::known(int i, std::string_view what) const {
  const void* data = need_constant(i, what);
  std::vector<float> values(static_cast<size_t>(count(in(i))));
  switch (in(i).dtype) {
    case NDT_F32:
      read<float>(data, values);
      return values;
    case NDT_BF16:
      read<Half>(data, values);
      return values;
    case NDT_I32:
      read<int32_t>(data, values);
      return values;
    case NDT_I8:
      read<int8_t>(data, values);
      return values;
    case NDT_U8:
      read<uint8_t>(data, values);
      return values;
    default:
      unsupported("its ", what, " (input ", i, ") is of dtype ", name_of(in(i).dtype));
  }
}

float Node::known_single(int i, std::string_view what, float none) const {
  if (!has(i)) return none;
  const std::vector<float> values = known(i, what);
  if (values.size() != 1)
    unsupported("its ", what, " (input ", i, ") has ", values.size(), " values");
  return values[0];
}

ndt_node Node::with(const ndt_tensor_type* in, const ndt_tensor_type* out) const {
  ndt_node node = node_;
  node.inputs = in;
  node.outputs = out;
  return node;
}

std::string Node::describe() const {
  std::string s(op());
  s += '(';
  for (int i = 0; i < inputs(); ++i) s += (i ? ", " : "") + plugin::describe(node_.inputs[i]);
  return s + ')';
}

}  // namespace ndtrain::plugin
