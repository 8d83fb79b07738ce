#include "backends/cpu/kernels/kernel.h"

#include "backends/plugin/one_thread.h"

namespace ndtrain::cpu {
namespace {

ndt_host the_host{};

constexpr int64_t kMaxElements = int64_t{1} << 40;

void check_port(const ndt_tensor_type& t, const char* side, int port, bool gaps) {
  if (t.dtype == NDT_ABSENT) return;
  if (t.dtype < NDT_ABSENT || t.dtype > NDT_BOOL)
    invalid(side, port, " has unknown dtype ", t.dtype);
  if (t.rank < 0 || t.rank > NDT_MAX_RANK) invalid(side, port, " has rank ", t.rank);
  int64_t stride = 1;
  for (int d = t.rank; d-- > 0;) {
    if (t.dims[d] < 0) invalid(side, port, " has extent ", t.dims[d]);
    if (t.dims[d] > 0 && stride > kMaxElements / t.dims[d]) invalid(side, port, " is too large");
    stride *= std::max<int64_t>(t.dims[d], 1);
  }
  if (t.channel_block > 1) unsupported(side, port, " is blocked by ", t.channel_block, " channels");
  if (count(t) == 0) return;
  stride = 1;
  for (int d = t.rank; d-- > 0; stride *= t.dims[d]) {
    const bool fits = t.strides[d] == stride || (gaps && d == 0 && t.strides[0] > stride);
    if (t.dims[d] > 1 && !fits) unsupported(side, port, " is not row-major");
  }
}

}  // namespace

std::string_view name_of(ndt_dtype t) {
  static constexpr std::string_view kNames[] = {"none", "f32", "f16", "bf16", "f64", "i8",  "u8",
                                                "i16",  "u16", "i32", "u32",  "i64", "u64", "bool"};
  return t >= NDT_ABSENT && t <= NDT_BOOL ? kNames[t] : "unknown";
}

size_t size_of(ndt_dtype t) {
  static constexpr size_t kBytes[] = {0, 4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1};
  return t >= NDT_ABSENT && t <= NDT_BOOL ? kBytes[t] : 0;
}

int64_t count(const ndt_tensor_type& t, int begin, int end) {
  int64_t n = 1;
  for (int d = begin; d < end; ++d) n *= t.dims[d];
  return n;
}

int64_t count(const ndt_tensor_type& t) { return count(t, 0, t.rank); }

size_t bytes(const ndt_tensor_type& t) { return static_cast<size_t>(count(t)) * size_of(t.dtype); }

std::string describe(const ndt_tensor_type& t) {
  if (t.dtype == NDT_ABSENT) return "-";
  std::ostringstream os;
  os << name_of(t.dtype) << '[';
  for (int d = 0; d < t.rank; ++d) os << (d ? "," : "") << t.dims[d];
  os << ']';
  return os.str();
}

Node::Node(const ndt_node& node, bool gaps, bool less_memory)
    : node_(node), less_memory_(less_memory) {
  if (!node.op) invalid("node without an op");
  for (const int n : {node.n_inputs, node.n_outputs}) {
    if (n < 0 || n > NDT_MAX_PORTS) invalid(n, " ports, the limit is ", NDT_MAX_PORTS);
  }
  for (int i = 0; i < node.n_inputs; ++i) check_port(node.inputs[i], "input ", i, false);
  for (int i = 0; i < node.n_outputs; ++i) check_port(node.outputs[i], "output ", i, gaps);
}

const ndt_tensor_type& Node::in(int i) const {
  if (!has(i)) invalid("needs input ", i);
  return node_.inputs[i];
}

const ndt_tensor_type& Node::out(int i) const {
  if (!wants(i)) invalid("needs output ", i);
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

int64_t Node::i(std::string_view name, int64_t fallback) const {
  return find(name) ? i(name) : fallback;
}

double Node::f(std::string_view name) const {
  const ndt_attr& a = get(name);
  if (a.n != -1) invalid("attribute ", name, " is not a float");
  return a.f;
}

double Node::f(std::string_view name, double fallback) const {
  return find(name) ? f(name) : fallback;
}

std::string_view Node::s(std::string_view name) const {
  const ndt_attr& a = get(name);
  if (a.n != -2 || !a.s) invalid("attribute ", name, " is not a string");
  return a.s;
}

std::string_view Node::s(std::string_view name, std::string_view fallback) const {
  return find(name) ? s(name) : fallback;
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

std::string Node::describe() const {
  std::string s(op());
  s += '(';
  for (int i = 0; i < inputs(); ++i) s += (i ? ", " : "") + cpu::describe(node_.inputs[i]);
  return s + ')';
}

const ndt_host& host() { return the_host; }

void set_host(const ndt_host& host) { the_host = host; }

int threads() { return plugin::OneThread::asked() ? 1 : std::max(1, the_host.threads); }

}  // namespace ndtrain::cpu
