// MatMul, Gemm and FusedMatMul, f32 and bf16, plain. A right side that all images share is packed,
// once where it is constant, at every run where training changes it, and rows of a few images, or a
// few rows of features, are one product: this library sums a row the same way with any others, by
// test. Two sides that both change with the image are a product per image.
#include <optional>

#include "backends/onednn/activation.h"
#include "backends/onednn/gemm_back.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/repacked.h"
#include "backends/onednn/sliced.h"
#include "backends/onednn/weights.h"

namespace ndtrain::onednn {
namespace {

constexpr int kBias = 2;
constexpr int64_t kColumnGrain = 64;  // columns that its packed matrices keep together

struct Product {
  ndt_dtype dtype;
  int64_t images = 1;  // separate products, or rows
  std::vector<int64_t> sizes = {1};
  int64_t heads = 1, m = 1, k = 1, n = 1;  // of one image
  bool by_rows = false, transposed = false, packed = false, changes = false, bias = false;
  Finish finish = {};

  Dims dims(int64_t group, int64_t rows, int64_t columns) const {
    if (by_rows) rows *= group;
    return heads == 1 ? Dims{rows, columns} : Dims{heads, rows, columns};
  }
  Desc given() const {
    return transposed ? transposed_desc({k, n}, dtype) : plain_desc({k, n}, dtype);
  }
  Desc weights() const {
    if (packed) return any_desc({k, n}, dtype);
    return plain_desc(dims(1, k, n), dtype);
  }
  PrimitivePtr make(int64_t group, const Desc& w) const {
    std::optional<Desc> b;
    if (bias) b = plain_desc({1, n}, dtype);
    return matmul(plain_desc(dims(group, m, k), dtype), w, b, plain_desc(dims(group, m, n), dtype),
                  finish);
  }
};

void check_gemm(const Node& node) {
  if (node.i("transA") != 0) unsupported("its left side is transposed");
  if (node.f("alpha") != 1) unsupported("alpha is ", node.f("alpha"), ", not 1");
  if (!node.has(kBias)) return;
  const ndt_tensor_type& c = node.in(kBias);
  if (node.f("beta") != 1) unsupported("beta is ", node.f("beta"), ", not 1");
  if (count(c) != node.out().dims[1] || c.dims[c.rank - 1] != count(c)) {
    unsupported("its addend ", describe(c), " is not one value per column");
  }
}

// Others are faster in a pass of their own, or as the cpu plugin computes them.
std::optional<Activation> checked_activation(const Node& node) {
  using Kind = dnnl::algorithm;
  const std::optional<Activation> a = activation_of(node);
  const bool known = !a || a->kind == Kind::eltwise_relu || a->kind == Kind::eltwise_gelu_erf ||
                     a->kind == Kind::eltwise_gelu_tanh;
  if (!known) unsupported("its function is neither Relu nor Gelu");
  return a;
}

void check_changing(const Node& node) {
  if (node.in(0).dtype == NDT_F32)
    unsupported("its right side changes: the cpu plugin is no slower");
  check_trained_float(node);
}

Product product_of(const Node& node) {
  check_float(node);
  if (!has_avx512()) unsupported("without AVX-512 the cpu plugin is no slower");
  const ndt_tensor_type &a = node.in(0), &b = node.in(1);
  for (const ndt_tensor_type* t : {&a, &b}) {
    if (t->rank < 2 || count(*t) == 0) unsupported("it is empty or not of matrices");
    if (layout_of(*t, "an input") != Layout::kPlain) unsupported("an input is not plain");
  }
  if (layout_of(node.out(), "output 0") != Layout::kPlain) unsupported("its output is not plain");
  const int last = a.rank - 1;
  Product p{.dtype = a.dtype, .images = a.dims[0], .k = a.dims[last], .n = b.dims[b.rank - 1]};
  if (node.op() == "Gemm") check_gemm(node);
  if (node.op() != "MatMul") {
    p.transposed = node.i("transB") != 0;
    if (p.transposed) p.n = b.dims[0];
    p.bias = node.has(kBias);
    p.finish.activation = checked_activation(node);
  }
  p.packed = b.rank == 2;
  if (p.packed) {
    p.changes = !node.constant(1);
    if (p.changes) check_changing(node);
    p.by_rows = true;
    p.sizes = a.rank == 2 ? std::vector<int64_t>{1, 4, 16} : std::vector<int64_t>{1, 2, 3, 4};
    for (int d = 1; d < last; ++d) p.m *= a.dims[d];
    return p;
  }
  if (a.rank != b.rank || a.rank < 3 || !std::equal(a.dims, a.dims + last - 1, b.dims)) {
    unsupported("the leading dims of its sides differ");
  }
  p.m = a.dims[last - 1];
  for (int d = 1; d < last - 1; ++d) p.heads *= a.dims[d];
  return p;
}

PrimitivePtr checked(const PrimitivePtr& primitive) {
  if (primitive->algorithm().starts_with("brg")) return primitive;
  unsupported("oneDNN would use ", primitive->algorithm(), ", whose sums depend on the rows");
}

using Part = Sliced::Plan::Part;

// Elements of each port before the part's own.
struct Before {
  int64_t a = 0, b = 0, bias = 0, y = 0;
};

Part part_of(const Product& p, const Desc& weights, const Before& before) {
  const int64_t size = size_of(p.dtype);
  std::vector<int64_t> offsets = {before.a * size, before.b * size};
  if (p.bias) offsets.push_back(before.bias * size);
  offsets.push_back(before.y * size);
  return {checked(p.make(1, weights)), std::move(offsets)};
}

Part of_heads(Product p, const Run& run) {
  p.heads = run.n;
  const int64_t first = run.first;
  return part_of(p, p.weights(),
                 {.a = first * p.m * p.k, .b = first * p.k * p.n, .y = first * p.m * p.n});
}

// Each with its own part of the packed right side.
Part of_columns(Product p, const Desc& weights, const Run& run) {
  p.n = run.n;
  const DescPart w = cut(weights, {p.k, run.n}, {0, run.first});
  return part_of(p, w.desc, {.b = w.offset / size_of(p.dtype), .bias = run.first, .y = run.first});
}

// One image in at most `n` parts: its products where there are several, else rows of its product,
// or columns where it has one row.
std::vector<Part> cut_image(const Product& p, const Desc& weights, int64_t n) {
  std::vector<Part> parts;
  if (p.heads > 1) {
    for (const Run& run : runs(p.heads, 1, n)) parts.push_back(of_heads(p, run));
    return parts;
  }
  if (p.m == 1 && p.packed && !p.changes) {
    for (const Run& run : runs(p.n, kColumnGrain, n)) parts.push_back(of_columns(p, weights, run));
    return parts;
  }
  const int64_t size = size_of(p.dtype);
  return cut_rows(p.m, p.k * size, p.n * size, p.bias ? 4 : 3, n, [&](int64_t rows) {
    Product part = p;
    part.m = rows;
    return checked(part.make(1, weights));
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_matmul(const ndt_device&, const Node& node) {
  if (is_gemm_back(node)) return prepare_gemm_back(node);
  const Product p = product_of(node);
  const Desc wanted = checked(p.make(p.sizes.back(), p.weights()))->desc(DNNL_ARG_WEIGHTS);
  Sliced::Plan plan{.images = p.images, .sizes = p.sizes};
  plan.make = [=](int64_t images) { return checked(p.make(images, wanted)); };
  plan.cut = [=](int64_t n) { return cut_image(p, wanted, n); };
  plan.ports.push_back(input_port(0, node.in(0), Layout::kPlain));
  if (p.packed && !p.changes) {
    const void* data = node.need_constant(1, "right side");
    const auto weights =
        packed_weights(node.constant_id(1), p.given(), wanted, [=] { return data; });
    plan.ports.push_back({Sliced::Port::Role::kFixed, 0, 0, weights->data()});
    plan.keep.push_back(weights);
  } else {
    plan.ports.push_back(p.changes ? Sliced::Port{Sliced::Port::Role::kInput, 1}
                                   : input_port(1, node.in(1), Layout::kPlain));
  }
  if (p.bias) plan.ports.push_back({Sliced::Port::Role::kInput, kBias});
  set_output(plan, node.out(), Layout::kPlain);
  auto kernel = std::make_unique<Sliced>(std::move(plan));
  if (p.changes) {
    return std::make_unique<Repacked>(std::move(kernel), node.inputs(), 1, p.given(), wanted);
  }
  if (p.packed) kernel->packed_inputs = 1 << 1;
  return kernel;
}

void prefer_matmul(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  for (int i = 0; i < node.inputs(); ++i) {
    if (node.has(i)) set_layout(in[i], Layout::kPlain);
  }
  set_layout(out[0], Layout::kPlain);
  const ndt_node wanted = node.with(in, out);
  if (is_gemm_back(node)) {
    prepare_gemm_back(Node(wanted));
    return;
  }
  const Product p = product_of(Node(wanted));
  checked(p.make(1, p.weights()));
}

}  // namespace ndtrain::onednn
