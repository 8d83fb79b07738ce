// RotaryEmbedding (Su et al., RoFormer, 2021): pairs of a head's numbers turned by an angle that
// depends on the position, as products and sums.
#include <limits>

#include "framework/onnx/adapt.h"

namespace ndtrain {
namespace {

struct Rotation {
  Adaptation& a;
  bool flat = false, interleaved = false;
  int64_t heads = 0, turned = 0, head = 0;

  std::string slice(const std::string& x, int64_t begin, int64_t end, int64_t step = 1) {
    return a.before(
        "Slice", {x, a.constant({begin}), a.constant({end}), a.constant({-1}), a.constant({step})});
  }
  // [B, 1, S, turned / 2]
  std::string angles(size_t cache) {
    const std::string rows =
        a.has_input(3) ? a.before("Gather", {a.input(cache), a.input(3)}, {{"axis", int64_t{0}}})
                       : a.input(cache);
    return a.before("Unsqueeze", {rows, a.constant({1})});
  }
  std::string product(const std::string& x, const std::string& y) {
    return a.before("Mul", {x, y});
  }

  // Of x [B, heads, S, turned].
  std::string turn(const std::string& x) {
    constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
    const int64_t half = turned / 2;
    const std::string first = interleaved ? slice(x, 0, kEnd, 2) : slice(x, 0, half);
    const std::string second = interleaved ? slice(x, 1, kEnd, 2) : slice(x, half, turned);
    const std::string cos = angles(1), sin = angles(2);
    std::string real = a.before("Sub", {product(cos, first), product(sin, second)});
    std::string imaginary = a.before("Add", {product(sin, first), product(cos, second)});
    const Attrs last{{"axis", int64_t{-1}}};
    if (!interleaved) return a.before("Concat", {real, imaginary}, last);
    const std::string end = a.constant({-1});
    real = a.before("Unsqueeze", {real, end});
    imaginary = a.before("Unsqueeze", {imaginary, end});
    const std::string pairs = a.before("Concat", {real, imaginary}, last);
    return a.before("Reshape", {pairs, a.constant({0, 0, 0, turned})});
  }
};

}  // namespace

void adapt_rotary(Adaptation& a) {
  const TensorType x = a.type(a.input(0));
  Rotation r{.a = a, .flat = x.shape.rank() == 3};
  r.interleaved = a.take<int64_t>("interleaved").value_or(0) != 0;
  r.turned = a.take<int64_t>("rotary_embedding_dim").value_or(0);
  r.heads = a.take<int64_t>("num_heads").value_or(0);
  if (!r.flat && x.shape.rank() != 4) throw Error("input ", x, " must be of rank 3 or 4");
  if (r.flat && (r.heads < 1 || x.shape[2] % r.heads != 0)) {
    throw Error("num_heads is ", r.heads, " for ", x);
  }
  r.head = r.flat ? x.shape[2] / r.heads : x.shape[3];
  if (r.turned == 0) r.turned = r.head;
  if (r.turned < 2 || r.turned % 2 != 0 || r.turned > r.head) {
    throw Error("rotary_embedding_dim is ", r.turned, " of heads of ", r.head);
  }
  const Attrs swap{{"perm", Ints{0, 2, 1, 3}}};
  std::string in = a.input(0);
  if (r.flat) {
    in = a.before("Reshape", {in, a.constant({0, 0, r.heads, r.head})});
    in = a.before("Transpose", {in}, swap);
  }
  const bool whole = r.turned == r.head;
  std::string y = r.turn(whole ? in : r.slice(in, 0, r.turned));
  if (!whole) {
    y = a.before("Concat", {y, r.slice(in, r.turned, r.head)}, {{"axis", int64_t{-1}}});
  }
  if (!r.flat) return a.become("Identity", {y});
  y = a.before("Transpose", {y}, swap);
  a.become("Reshape", {y, a.constant({0, 0, x.shape[2]})});
}

}  // namespace ndtrain
