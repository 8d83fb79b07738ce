// Attention of ONNX Runtime's domain: queries, keys and values are one product of the input, heads
// lie side by side. QAttention has bytes for its input and weights, MultiHeadAttention the three
// ready.
#include "framework/onnx/adapt_microsoft.h"

namespace ndtrain {
namespace {

// Inputs and outputs of sequences of several lengths, or of state between runs.
void refuse_inputs(Adaptation& a, std::initializer_list<std::pair<size_t, const char*>> names) {
  for (const auto& [i, name] : names) {
    if (a.has_input(i)) throw Error("input ", name, " is not supported");
  }
  for (const char* flag : {"do_rotary", "past_present_share_buffer"}) {
    if (a.take<int64_t>(flag).value_or(0) != 0) throw Error(flag, " is not supported");
  }
  for (size_t k = 1; k < a.node.outputs.size(); ++k) {
    if (!a.node.outputs[k].empty()) throw Error("its output ", k, " is not supported");
  }
  a.node.outputs.resize(1);
  a.take<double>("mask_filter_value");  // of the masks that are refused
  a.take<int64_t>("rotary_embedding_dim");
}

// The node is ONNX's Attention of these. `bias` is added to the scores if it is not "".
void attend(Adaptation& a, std::vector<std::string> qkv, const std::string& bias) {
  const int64_t heads = a.take<int64_t>("num_heads").value_or(0);
  if (heads < 1) throw Error("num_heads is ", heads, ", must be 1 or more");
  Attrs attrs{{"q_num_heads", heads},
              {"kv_num_heads", heads},
              {"is_causal", a.take<int64_t>("unidirectional").value_or(0)}};
  if (const auto scale = a.take<double>("scale"); scale && *scale != 0) attrs.set("scale", *scale);
  if (!bias.empty()) qkv.push_back(bias);
  a.become("Attention", std::move(qkv), std::move(attrs));
  become_onnx(a, "Attention");
}

// Columns of x as three, in thirds where no widths are given.
std::vector<std::string> in_three(Adaptation& a, const std::string& x, Ints widths) {
  const TensorType type = a.type(x);
  if (widths.empty()) widths = Ints(3, type.shape[-1] / 3);
  if (widths.size() != 3 || widths[0] + widths[1] + widths[2] != type.shape[-1]) {
    throw Error("queries, keys and values do not make up ", type);
  }
  return a.several_before("Split", {x, a.constant(widths)}, 3, {{"axis", int64_t{-1}}});
}

void attend_packed(Adaptation& a, const std::string& x, const std::string& weights, size_t bias,
                   const std::string& scores_bias) {
  std::string product = a.before("MatMul", {x, weights});
  if (a.has_input(bias)) product = a.before("Add", {product, a.input(bias)});
  const Ints widths = a.take<Ints>("qkv_hidden_sizes").value_or(Ints{});
  attend(a, in_three(a, product, widths), scores_bias);
}

}  // namespace

void adapt_packed_attention(Adaptation& a) {
  refuse_inputs(a, {{3, "mask_index"}, {4, "past"}, {6, "past_sequence_length"}});
  attend_packed(a, a.input(0), a.input(1), 2, a.has_input(5) ? a.input(5) : "");
}

void adapt_quantized_attention(Adaptation& a) {
  refuse_inputs(a, {{5, "mask_index"}, {8, "past"}});
  const auto dequantized = [&](size_t x, size_t scale, size_t zero) {
    std::vector<std::string> in = {a.input(x), a.input(scale)};
    if (a.has_input(zero)) in.push_back(a.input(zero));
    return a.before("DequantizeLinear", std::move(in), {{"axis", int64_t{-1}}});
  };
  const std::string x = dequantized(0, 3, 6), w = dequantized(1, 4, 7);
  attend_packed(a, x, w, 2, "");
}

void adapt_multi_head_attention(Adaptation& a) {
  refuse_inputs(a, {{4, "key_padding_mask"},
                    {6, "past_key"},
                    {7, "past_value"},
                    {8, "past_sequence_length"},
                    {9, "cache_indirection"}});
  std::vector<std::string> qkv;
  Ints widths;
  for (const size_t i : {0, 1, 2}) {
    if (!a.has_input(i)) throw Error("keys and values within the queries are not supported");
    if (a.type(a.input(i)).shape.rank() != 3) {
      throw Error("an input of ", a.type(a.input(i)), " is not supported, only of rank 3");
    }
    qkv.push_back(a.input(i));
    widths.push_back(a.type(a.input(i)).shape[2]);
  }
  if (a.has_input(3)) {
    const std::vector<std::string> bias = in_three(a, a.input(3), widths);
    for (size_t i = 0; i < 3; ++i) qkv[i] = a.before("Add", {qkv[i], bias[i]});
  }
  attend(a, std::move(qkv), a.has_input(5) ? a.input(5) : "");
}

}  // namespace ndtrain
