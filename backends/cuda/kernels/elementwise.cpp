// Functions of one, two or three elements, casts and choices, with broadcasting: any layouts.
#include "backends/cuda/kernels/elementwise.h"

#include <limits>
#include <map>
#include <span>
#include <string>

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

struct Row {
  Function function;
  bool integers;  // too
};

const Row& row_of(const Node& node) {
  static const std::map<std::string_view, Row> table = {
#define HOT_NUMBER(name, expression) {#name, {Function::k##name, true}},
#define HOT_FLOAT(name, expression) {#name, {Function::k##name, false}},
#define NUMBER(name, expression) {#name, {Function::k##name, true}},
#define FLOAT(name, expression) {#name, {Function::k##name, false}},
#include "backends/cuda/kernels/functions.inc"
#undef FLOAT
#undef NUMBER
#undef HOT_FLOAT
#undef HOT_NUMBER
  };
  const std::string_view op = node.op();
  if (op == "Cast" || op == "CastLike") return table.at("Same");
  const bool gelu = op == "Gelu" || op == "GeluGrad";
  if (gelu && node.s("approximate") == "tanh") {
    return table.at(op == "Gelu" ? "GeluTanh" : "GeluTanhGrad");
  }
  return table.at(op);
}

Function function_in(const Node& node, Class computed) {
  const Row& row = row_of(node);
  const bool integers = computed == Class::kSigned || computed == Class::kUnsigned;
  if (integers && !row.integers) unsupported("it is not computed in ", name_of(node.in(0).dtype));
  return row.function;
}

// a and b: the node's float attributes, in the order of their names.
void set_numbers(Elementwise& e, const Node& node) {
  std::map<std::string_view, double> numbers;
  const std::span attrs(node.abi().attrs, static_cast<size_t>(node.abi().n_attrs));
  for (const ndt_attr& attr : attrs) {
    if (attr.n == -1) numbers.emplace(attr.name, attr.f);
  }
  if (numbers.size() > 2) unsupported("it has ", numbers.size(), " numbers, at most 2");
  if (!numbers.empty()) e.a = numbers.begin()->second;
  if (numbers.size() == 2) e.b = numbers.rbegin()->second;
}

// What the node computes of its inputs `from`.
Elementwise elementwise(const Node& node, const std::vector<int>& from, Class computed) {
  Elementwise e;
  e.computed = computed;
  e.function = function_in(node, computed);
  e.inputs = static_cast<int>(from.size());
  std::vector<ndt_tensor_type> types;
  for (const int i : from) {
    e.in[types.size()] = node.in(i).dtype;
    types.push_back(node.in(i));
  }
  e.out = node.out().dtype;
  e.walk = walk(node.out(), types);
  set_numbers(e, node);
  return e;
}

std::unique_ptr<Kernel> start(const Elementwise& e, const std::vector<int>& from) {
  auto k = kernel([e, from](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    const void* data[kMostInputs] = {};
    for (size_t i = 0; i < from.size(); ++i) data[i] = in[from[i]];
    e.run(data, out[0], stream.stream);
  });
  for (size_t i = 0; i < from.size(); ++i) {
    const bool fits = size_of(e.in[i]) == size_of(e.out) && e.walk.whole(static_cast<int>(i));
    if (fits) k->in_place_inputs |= uint64_t{1} << from[i];
  }
  return k;
}

void check_same_dtype(const Node& node, int i, int j) {
  if (node.in(i).dtype != node.in(j).dtype) {
    invalid("inputs ", i, " and ", j, " are ", name_of(node.in(i).dtype), " and ",
            name_of(node.in(j).dtype));
  }
}

// Of a walk of the first inputs one by one: no more of them are needed at once.
class Folding final : public Kernel {
 public:
  explicit Folding(const Node& node) {
    const bool mean = node.op() == "Mean";
    const Function last = function_in(node, class_of(node.in(0).dtype)),
                   before = mean ? Function::kSum : last;
    // Between two steps: in the type that is computed in, where the output has its elements.
    ndt_tensor_type between = node.out();
    between.dtype = wide(node.in(0).dtype);
    for (int done = 0; done < node.inputs();) {
      const int held = done > 0 ? 1 : 0;
      const int taken = std::min(node.inputs() - done, kMostInputs - held);
      std::vector<ndt_tensor_type> types(static_cast<size_t>(held), between);
      for (int i = done; i < done + taken; ++i) {
        check_same_dtype(node, 0, i);
        types.push_back(node.in(i));
      }
      Elementwise e;
      e.computed = class_of(node.in(0).dtype);
      e.inputs = held + taken;
      for (size_t i = 0; i < types.size(); ++i) e.in[i] = types[i].dtype;
      done += taken;
      const bool final = done == node.inputs();
      e.function = final ? last : before;
      e.a = node.inputs();
      e.out = final ? node.out().dtype : between.dtype;
      e.walk = walk(final ? node.out() : between, types);
      steps_.push_back({e, taken});
    }
    if (steps_.size() > 1) {
      workspace_bytes = static_cast<size_t>(extent_of(between) * size_of(between.dtype));
    } else {
      for (int i = 0; i < node.inputs(); ++i) {
        if (steps_[0].what.walk.whole(i)) in_place_inputs |= uint64_t{1} << i;
      }
    }
  }

  void run(ndt_stream& stream, const void* const* in, void* const* out,
           void* workspace) const override {
    for (const Step& step : steps_) {
      const void* data[kMostInputs] = {};
      int k = 0;
      if (&step != &steps_.front()) data[k++] = workspace;
      for (int i = 0; i < step.taken; ++i) data[k++] = *in++;
      step.what.run(data, &step == &steps_.back() ? out[0] : workspace, stream.stream);
    }
  }

 private:
  struct Step {
    Elementwise what;
    int taken;  // of the node's inputs
  };

  static ndt_dtype wide(ndt_dtype t) {
    switch (class_of(t)) {
      case Class::kFloat:
        return NDT_F32;
      case Class::kDouble:
        return NDT_F64;
      default:
        return t;
    }
  }
  static int64_t extent_of(const ndt_tensor_type& t) {
    int64_t last = 0;
    for (int d = 0; d < t.rank; ++d) last += std::max<int64_t>(t.dims[d] - 1, 0) * t.strides[d];
    return last + 1;
  }

  std::vector<Step> steps_;
};

}  // namespace

std::unique_ptr<Kernel> prepare_unary(ndt_device&, const Node& node) {
  return start(elementwise(node, {0}, class_of(node.in(0).dtype)), {0});
}

std::unique_ptr<Kernel> prepare_binary(ndt_device&, const Node& node) {
  check_same_dtype(node, 0, 1);
  return start(elementwise(node, {0, 1}, class_of(node.in(0).dtype)), {0, 1});
}

// f32 to the power of f32 is done in f32, anything with integers or f64 in double.
std::unique_ptr<Kernel> prepare_pow(ndt_device&, const Node& node) {
  bool floats = true;
  for (const int i : {0, 1}) floats = floats && class_of(node.in(i).dtype) == Class::kFloat;
  return start(elementwise(node, {0, 1}, floats ? Class::kFloat : Class::kDouble), {0, 1});
}

std::unique_ptr<Kernel> prepare_where(ndt_device&, const Node& node) {
  if (node.in(0).dtype != NDT_BOOL) invalid("the condition is ", name_of(node.in(0).dtype));
  check_same_dtype(node, 1, 2);
  return start(elementwise(node, {0, 1, 2}, class_of(node.in(1).dtype)), {0, 1, 2});
}

std::unique_ptr<Kernel> prepare_clip(ndt_device&, const Node& node) {
  const int x = node.op() == "ClipGrad" ? 1 : 0;
  std::vector<int> from = {0};
  if (x == 1) from.push_back(x);
  for (const int limit : {x + 1, x + 2}) {
    if (node.has(limit)) {
      if (count(node.in(limit)) != 1) {
        invalid("limit ", describe(node.in(limit)), " is not one number");
      }
      check_same_dtype(node, x, limit);
      from.push_back(limit);
    } else if (x == 1) {
      from.push_back(x);  // which is never beyond itself
    }
  }
  Elementwise e = elementwise(node, from, class_of(node.in(x).dtype));
  if (x == 0 && from.size() == 1) e.function = Function::kSame;
  if (x == 0 && from.size() == 2) e.function = node.has(1) ? Function::kAtLeast : Function::kAtMost;
  return start(e, from);
}

std::unique_ptr<Kernel> prepare_variadic(ndt_device&, const Node& node) {
  return std::make_unique<Folding>(node);
}

}  // namespace ndtrain::cuda
