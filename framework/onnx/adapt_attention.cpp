// Attention of opsets 23 to 25 as the operators that it stands for:
//   y = softmax(softcap(scale q k^T) + bias) v, per image and head
// with q [B, H, S, D], or [B, S, H D] and H given; k and v likewise of G heads that divide H, each
// for H/G of q's; bias from a mask, from causality and from a window. Source: ONNX's
// docs/Operators.md. A query that may attend to no key has zeros, not what 0/0 gives.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/core/limits.h"
#include "framework/onnx/adapt.h"
#include "framework/onnx/tensor_proto.h"

namespace ndtrain {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

enum QkOutput : int64_t { kProduct, kCapped, kBiased, kProbabilities };  // qk_matmul_output_mode

struct Settings {
  int64_t q_heads, kv_heads;  // 0: not said
  double scale, softcap;      // scale: 0 when not said
  bool causal;
  int64_t left, right;  // of the window; -1: open
  int64_t qk_output;
  DType softmax_dtype;  // kNone: that of the queries
};

class Attention {
 public:
  explicit Attention(Adaptation& a)
      : a_(a),
        q_(a.type(a.input(0))),
        k_(a.type(a.input(1))),
        v_(a.type(a.input(2))),
        flat_(q_.shape.rank() == 3) {
    take_settings();
    check_types();
    check_heads();
    past_ = a_.has_input(4) ? a_.type(a_.input(4)).shape[2] : 0;
    queries_ = q_.shape[-2];
    keys_ = past_ + k_.shape[-2];
  }

  void lower() {
    std::string k = with_heads(a_.input(1), set_.kv_heads),
                v = with_heads(a_.input(2), set_.kv_heads);
    if (a_.has_input(4)) {
      k = a_.before("Concat", {a_.input(4), k}, {{"axis", int64_t{2}}});
      v = a_.before("Concat", {a_.input(5), v}, {{"axis", int64_t{2}}});
    }
    a_.give(1, k);
    a_.give(2, v);
    const std::string bias = bias_of_scores();
    const std::string none = bias.empty() ? "" : queries_without_keys(bias);
    const std::string weights = probabilities(scores(repeated(k, q_head())), bias, none);
    finish(weights, repeated(v, v_head()), none);
  }

 private:
  static void require(bool holds, const std::string& what) {
    if (!holds) throw Error(what);
  }

  void take_settings() {
    const auto number = [&](const char* name, int64_t absent) {
      return a_.take<int64_t>(name).value_or(absent);
    };
    set_.q_heads = number("q_num_heads", 0);
    set_.kv_heads = number("kv_num_heads", 0);
    set_.scale = a_.take<double>("scale").value_or(0);
    set_.softcap = a_.take<double>("softcap").value_or(0);
    set_.causal = number("is_causal", 0) != 0;
    set_.left = number("left_window_size", -1);
    set_.right = number("right_window_size", -1);
    set_.qk_output = number("qk_matmul_output_mode", kProduct);
    const int64_t precision = number("softmax_precision", 0);
    set_.softmax_dtype = precision == 0 ? q_.dtype : dtype_from_onnx(precision);
    require(set_.qk_output >= kProduct && set_.qk_output <= kProbabilities,
            "qk_matmul_output_mode is " + std::to_string(set_.qk_output) + ", must be 0 to 3");
    require(set_.left >= -1 && set_.right >= -1, "a window size is below -1");
    require(is_float(set_.softmax_dtype), "softmax_precision is no float type");
  }

  void check_types() const {
    require(is_float(q_.dtype) && k_.dtype == q_.dtype && v_.dtype == q_.dtype,
            "queries, keys and values must be of one float type");
    const int rank = q_.shape.rank();
    if ((rank != 3 && rank != 4) || k_.shape.rank() != rank || v_.shape.rank() != rank) {
      throw Error("queries ", q_, ", keys ", k_, " and values ", v_, " must be of rank 3 or 4");
    }
    if (k_.shape[-2] != v_.shape[-2]) throw Error("there are keys ", k_, " and values ", v_);
    if (a_.has_input(6)) {
      const TensorType lengths = a_.type(a_.input(6));
      if (lengths.dtype != DType::kI64 || lengths.shape.rank() != 1) {
        throw Error("nonpad_kv_seqlen is ", lengths, ", must be one i64 for each image");
      }
      require(!a_.has_input(4), "nonpad_kv_seqlen and past_key do not come together");
    }
    require(a_.has_input(4) == a_.has_input(5), "past_key and past_value come together");
  }

  // Also fills in how many heads there are.
  void check_heads() {
    for (const auto& [heads, type, name] : {std::tuple(&set_.q_heads, &q_, "q_num_heads"),
                                            std::tuple(&set_.kv_heads, &k_, "kv_num_heads")}) {
      if (!flat_ && *heads == 0) *heads = type->shape[1];
      if (*heads < 1) throw Error(name, " is ", *heads, " for inputs of rank 3; it must be given");
      if (flat_ ? type->shape[2] % *heads != 0 : type->shape[1] != *heads) {
        throw Error(name, " is ", *heads, ", which does not fit ", *type);
      }
    }
    if (set_.q_heads % set_.kv_heads != 0 ||
        (flat_ ? v_.shape[2] % set_.kv_heads != 0 : v_.shape[1] != set_.kv_heads)) {
      throw Error(set_.q_heads, " heads of queries do not share ", set_.kv_heads,
                  " heads of keys and values ", v_);
    }
  }

  int64_t q_head() const { return flat_ ? q_.shape[2] / set_.q_heads : q_.shape[3]; }
  int64_t v_head() const { return flat_ ? v_.shape[2] / set_.kv_heads : v_.shape[3]; }

  std::string number(double x) {
    return a_.constant(Tensor::from_doubles({q_.dtype, Shape{}}, std::span(&x, 1)));
  }

  // [B, S, heads * n] as [B, heads, S, n].
  std::string with_heads(const std::string& x, int64_t heads) {
    if (!flat_) return x;
    const std::string apart = a_.before("Reshape", {x, a_.constant({0, 0, heads, -1})});
    return a_.before("Transpose", {apart}, {{"perm", Ints{0, 2, 1, 3}}});
  }

  // Each of the kv_heads as often as queries share it.
  std::string repeated(const std::string& x, int64_t width) {
    const int64_t times = set_.q_heads / set_.kv_heads;
    if (times == 1) return x;
    const std::string single = a_.before("Unsqueeze", {x, a_.constant({2})});
    const std::string tiled = a_.before("Tile", {single, a_.constant({1, 1, times, 1, 1})});
    return a_.before("Reshape", {tiled, a_.constant({0, set_.q_heads, -1, width})});
  }

  // scale q k^T, capped.
  std::string scores(const std::string& k) {
    const double scale =
        set_.scale == 0 ? 1 / std::sqrt(static_cast<double>(q_head())) : set_.scale;
    std::string q = with_heads(a_.input(0), set_.q_heads);
    if (scale != 1) q = a_.before("Mul", {q, number(scale)});
    const std::string upright = a_.before("Transpose", {k}, {{"perm", Ints{0, 1, 3, 2}}});
    std::string s = a_.before("MatMul", {q, upright});
    if (set_.qk_output == kProduct) a_.give(3, s);
    if (set_.softcap > 0) {
      const std::string cap = number(set_.softcap);
      s = a_.before("Mul", {a_.before("Tanh", {a_.before("Div", {s, cap})}), cap});
    }
    if (set_.qk_output == kCapped) a_.give(3, s);
    return s;
  }

  // What is added to the scores: 0, the mask's numbers, or -infinity; "" for nothing.
  std::string bias_of_scores() {
    const std::string mask = a_.has_input(3) ? mask_as_numbers() : "";
    if (!by_position() && !a_.has_input(6)) return mask;
    const std::string allowed = a_.has_input(6) ? allowed_by_length() : allowed_by_position();
    return mask.empty() ? allowed : a_.before("Add", {mask, allowed});
  }

  std::string mask_as_numbers() {
    const TensorType mask = a_.type(a_.input(3));
    const int64_t last = mask.shape.rank() > 0 ? mask.shape[-1] : 1;
    const bool since_24 = a_.node.opset > 23;
    if (last > keys_ || (last != keys_ && last != 1 && !since_24)) {
      throw Error("a mask ", mask, " for ", keys_, " keys is not supported: it must name them all");
    }
    std::string bias = a_.input(3);
    if (mask.dtype == DType::kBool) {
      bias = a_.before("Where", {bias, number(0), number(kMasked)});
    } else if (!is_float(mask.dtype)) {
      throw Error("a mask of ", mask, " is not supported");
    } else if (mask.dtype != q_.dtype) {
      bias = a_.before("Cast", {bias}, {{"to", static_cast<int64_t>(q_.dtype)}});
    }
    if (last == keys_ || !since_24) return bias;
    if (mask.shape.rank() == 0) throw Error("a mask ", mask, " for ", keys_, " keys");
    // What it does not name is masked.
    Ints pads(2 * static_cast<size_t>(mask.shape.rank()), 0);
    pads.back() = keys_ - last;
    return a_.before("Pad", {bias, a_.constant(pads), number(kMasked)});
  }

  bool by_position() const { return set_.causal || set_.left >= 0 || set_.right >= 0; }

  void check_places() const {
    if (queries_ * keys_ <= limits::kAttentionMask) return;
    throw Error(queries_, " queries and ", keys_, " keys: a causal mask or a window has at most ",
                limits::kAttentionMask, " places");
  }

  // Each image has so many keys, of which the last query stands at the last.
  std::string allowed_by_length() {
    const std::string length = a_.before("Reshape", {a_.input(6), a_.constant({-1, 1, 1, 1})});
    Ints keys(static_cast<size_t>(keys_));
    std::iota(keys.begin(), keys.end(), 0);
    std::string allowed = a_.before("Less", {a_.constant(keys), length});
    const auto both = [&](const char* op, const std::string& behind, int64_t limit) {
      const std::string holds = a_.before(op, {behind, a_.constant({limit})});
      allowed = a_.before("And", {allowed, holds});
    };
    if (by_position()) {
      check_places();
      Ints apart;  // how far a key lies before a query, less the length
      for (int64_t i = 0; i < queries_ * keys_; ++i) {
        apart.push_back(i / keys_ - queries_ - i % keys_);
      }
      const Tensor places = Tensor::of<int64_t>(DType::kI64, Shape{queries_, keys_}, apart);
      const std::string behind = a_.before("Add", {a_.constant(places), length});
      if (set_.causal) both("GreaterOrEqual", behind, 0);
      if (set_.left >= 0) both("LessOrEqual", behind, set_.left);
      if (set_.right >= 0) both("GreaterOrEqual", behind, -set_.right);
    }
    return a_.before("Where", {allowed, number(0), number(kMasked)});
  }

  std::string allowed_by_position() {
    check_places();
    std::vector<double> bias;
    for (int64_t i = 0; i < queries_; ++i) {
      for (int64_t j = 0; j < keys_; ++j) {
        const int64_t behind = i + past_ - j;  // how far the key lies before the query
        const bool seen = (!set_.causal || behind >= 0) && (set_.left < 0 || behind <= set_.left) &&
                          (set_.right < 0 || -behind <= set_.right);
        bias.push_back(seen ? 0 : kMasked);
      }
    }
    return a_.constant(Tensor::from_doubles({q_.dtype, Shape{queries_, keys_}}, bias));
  }

  // Which queries may attend to no key, as a bool [.., S, 1]; "" where there can be none.
  std::string queries_without_keys(const std::string& bias) {
    if (const Tensor* known = a_.data(bias); known && keys_ > 0) {
      const std::vector<double> all = known->to_doubles();
      const auto row = static_cast<size_t>(known->shape().rank() > 0 ? known->shape()[-1] : 1);
      bool found = false;
      for (size_t i = 0; i < all.size(); i += row) {
        found |= std::ranges::all_of(std::span(all).subspan(i, row),
                                     [](double x) { return x == kMasked; });
      }
      if (!found) return "";
    }
    const std::string top =
        a_.before("ReduceMax", {bias, a_.constant({-1})}, {{"keepdims", int64_t{1}}});
    return a_.before("Equal", {top, number(kMasked)});
  }

  std::string probabilities(std::string s, std::string bias, const std::string& none) {
    if (set_.qk_output == kBiased) {
      a_.give(3, bias.empty() ? s : a_.before("Add", {s, bias}));
    }
    // Where nothing may be attended to everything is, for now.
    if (!none.empty()) bias = a_.before("Where", {none, number(0), bias});
    if (!bias.empty()) s = a_.before("Add", {s, bias});
    const auto as = [&](DType t) {
      if (set_.softmax_dtype == q_.dtype) return s;
      return a_.before("Cast", {s}, {{"to", static_cast<int64_t>(t)}});
    };
    s = as(set_.softmax_dtype);
    s = a_.before("Softmax", {s}, {{"axis", int64_t{-1}}});
    s = as(q_.dtype);
    if (set_.qk_output == kProbabilities) {
      a_.give(3, none.empty() ? s : a_.before("Where", {none, number(0), s}));
    }
    return s;
  }

  // The last of its nodes computes the first output.
  void finish(const std::string& weights, const std::string& v, const std::string& none) {
    std::string y;
    const auto last = [&](const char* op, std::vector<std::string> in, bool is_last) {
      if (!is_last) {
        y = a_.before(op, std::move(in));
        return;
      }
      a_.node.op = op;
      a_.node.inputs = std::move(in);
      a_.node.outputs.resize(1);
    };
    last("MatMul", {weights, v}, none.empty() && !flat_);
    if (!none.empty()) last("Where", {none, number(0), y}, !flat_);
    if (!flat_) return;
    const std::string rows = a_.before("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
    last("Reshape", {rows, a_.constant({0, 0, set_.q_heads * v_head()})}, true);
  }

  Adaptation& a_;
  Settings set_{};
  const TensorType q_, k_, v_;
  const bool flat_;  // heads lie side by side in the last dim
  int64_t past_ = 0, queries_ = 0, keys_ = 0;
};

}  // namespace

void adapt_attention(Adaptation& a) try {
  if (a.refused_before()) return;
  for (const size_t i : {0, 1, 2}) {
    if (!a.has_input(i)) throw Error("queries, keys and values must be given");
  }
  Attention(a).lower();
} catch (const Error& e) {
  a.refuse(e.what());
}

}  // namespace ndtrain
