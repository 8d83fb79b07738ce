// ArgMax and ArgMin along one axis: the index of the first extreme, or of the last.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  require(c, 0, is_number, "a numeric dtype");
  const int axis = c.shape(0).axis(c.attrs.i("axis"), "axis");
  if (c.shape(0)[axis] == 0) throw Error("dim ", axis, " of ", c.in[0], " has no elements");
  std::vector<int64_t> dims = c.shape(0).dims();
  if (c.attrs.flag("keepdims")) {
    dims[static_cast<size_t>(axis)] = 1;
  } else {
    dims.erase(dims.begin() + axis);
  }
  c.out = {{DType::kI64, Shape(std::move(dims))}};
}

template <bool want_max>
void reference(const ReferenceContext& c) {
  const Shape& s = c.shape(0);
  const int axis = s.axis(c.attrs.i("axis"), "axis");
  const int64_t n = s[axis], inner = s.count(axis + 1, s.rank());
  const bool last = c.attrs.flag("select_last_index");
  for (size_t o = 0; o < c.out[0].size(); ++o) {
    const int64_t start =
        static_cast<int64_t>(o) / inner * n * inner + static_cast<int64_t>(o) % inner;
    int64_t best = 0;
    for (int64_t k = 1; k < n; ++k) {
      const double x = c.in[0][start + k * inner], b = c.in[0][start + best * inner];
      if ((want_max ? x > b : x < b) || (last && x == b)) best = k;
    }
    c.out[0][o] = static_cast<double>(best);
  }
}

std::vector<Example> examples() {
  using E = ExampleInput;
  std::vector<Example> list;
  const E ties = E::given(DType::kF32, {2, 4}, {1, 3, 3, 2, 5, 5, 4, 5});
  for (const int64_t last : {0, 1}) {
    const Attr select{last};
    list.push_back({{ties}, {{"axis", int64_t{1}}, {"select_last_index", select}}});
    list.push_back({{{2, 3, 4}}, {{"axis", int64_t{-1}}, {"select_last_index", select}}});
    list.push_back(
        {{{2, 3, 4}},
         {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}, {"select_last_index", select}}});
  }
  list.push_back({{{7}}, {{"keepdims", int64_t{0}}}});
  list.push_back({{{0, 3}}, {{"axis", int64_t{1}}}});
  for (const DType t :
       {DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kU8, DType::kI32, DType::kI64}) {
    list.push_back({{{t, {3, 5}}}, {{"axis", int64_t{1}}}});
  }
  return list;
}

OpDef arg(std::string_view name, void (*reference)(const ReferenceContext&)) {
  return {.name = name,
          .facts = {.onnx = 1, .sign = Sign::kNeverNegative, .own_dtype = true},
          .attrs = {{"axis", AttrSpec::Kind::kInt, Attr(int64_t{0})},
                    {"keepdims", AttrSpec::Kind::kInt, Attr(int64_t{1})},
                    {"select_last_index", AttrSpec::Kind::kInt, Attr(int64_t{0})}},
          .infer = infer,
          .reference = reference,
          .examples = examples()};
}

}  // namespace

std::vector<OpDef> argmax_ops() {
  return {arg("ArgMax", reference<true>), arg("ArgMin", reference<false>)};
}

}  // namespace ndtrain
