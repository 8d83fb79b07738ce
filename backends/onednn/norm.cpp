// Softmax and LayerNormalization over the last axis, f32 and bf16, plain: rows that depend on
// themselves alone. Scale and bias become f32 when they are packed.
#include "backends/onednn/ops.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

constexpr int kScale = 1, kBias = 2;

struct Rows {
  ndt_dtype dtype;
  int64_t images, rows, length;  // rows of one image

  Desc desc(int64_t n) const { return rows_desc(n * rows); }
  Desc rows_desc(int64_t n) const { return plain_desc({n, length}, dtype); }
  // Of plans with that many ports; `make` is given descriptions of rows.
  template <typename Make>
  std::vector<Sliced::Plan::Part> cut(size_t ports, int64_t parts, const Make& make) const {
    const int64_t row = length * size_of(dtype);
    return cut_rows(rows, row, row, ports, parts, [&](int64_t n) { return make(rows_desc(n)); });
  }
};

Rows rows_of(const Node& node) {
  check_float(node);
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  if (x.rank < 2 || count(x) == 0) unsupported("it is empty or has rank ", x.rank);
  const int64_t axis = node.i("axis");
  if (axis != -1 && axis != x.rank - 1) unsupported("axis ", axis, " is not the last");
  if (!lies(x, Layout::kPlain) || !lies(y, Layout::kPlain)) unsupported("it does not lie plain");
  for (int k = 1; k < node.outputs(); ++k) {
    if (node.has_output(k)) unsupported("it is asked for its statistics");
  }
  const int64_t length = x.dims[x.rank - 1];
  return {x.dtype, x.dims[0], count(x, 1) / length, length};
}

Sliced::Plan plan_of(const Node& node, const Rows& r) {
  Sliced::Plan plan{.images = r.images};
  plan.ports.push_back(input_port(0, node.in(0), Layout::kPlain));
  return plan;
}

// A constant input of `length` values as f32.
Sliced::Port fixed(const Node& node, int i, int64_t length, Sliced::Plan& plan) {
  auto values = std::make_shared<std::vector<float>>(node.known(i, i == kScale ? "scale" : "bias"));
  if (static_cast<int64_t>(values->size()) != length) {
    unsupported("input ", i, " ", describe(node.in(i)), " is not one value per element of a row");
  }
  plan.keep.push_back(values);
  return {Sliced::Port::Role::kFixed, 0, 0, values->data()};
}

}  // namespace

std::unique_ptr<Kernel> prepare_softmax(const ndt_device&, const Node& node) {
  const Rows r = rows_of(node);
  Sliced::Plan plan = plan_of(node, r);
  plan.make = [=](int64_t images) { return softmax(r.desc(images)); };
  plan.cut = [=](int64_t parts) { return r.cut(2, parts, softmax); };
  set_output(plan, node.out(), Layout::kPlain);
  auto kernel = std::make_unique<Sliced>(std::move(plan));
  kernel->in_place_inputs = 1;
  return kernel;
}

std::unique_ptr<Kernel> prepare_layer_norm(const ndt_device&, const Node& node) {
  const Rows r = rows_of(node);
  Sliced::Plan plan = plan_of(node, r);
  const auto epsilon = static_cast<float>(node.f("epsilon"));
  const bool bias = node.has(kBias);
  const auto make = [=](const Desc& rows) { return layer_norm(rows, epsilon, bias); };
  plan.make = [=](int64_t images) { return make(r.desc(images)); };
  plan.cut = [=](int64_t parts) { return r.cut(bias ? 4 : 3, parts, make); };
  plan.ports.push_back(fixed(node, kScale, r.length, plan));
  if (bias) plan.ports.push_back(fixed(node, kBias, r.length, plan));
  set_output(plan, node.out(), Layout::kPlain);
  auto kernel = std::make_unique<Sliced>(std::move(plan));
  kernel->packed_inputs = bias ? 6 : 2;
  kernel->in_place_inputs = 1;
  return kernel;
}

void prefer_norm(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  set_layout(in[0], Layout::kPlain);
  set_layout(out[0], Layout::kPlain);
  const ndt_node wanted = node.with(in, out);
  rows_of(Node(wanted));
  if (node.op() == "Softmax") return;
  node.need_constant(kScale, "scale");
  if (node.has(kBias)) node.need_constant(kBias, "bias");
  if (count(node.in(kScale)) != in[0].dims[in[0].rank - 1]) unsupported("its scale is not a row");
}

}  // namespace ndtrain::onednn
