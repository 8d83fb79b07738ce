// Vision Transformer (Dosovitskiy et al. 2021), with torchvision's names and its fused projection
// of queries, keys and values.
#include <cmath>

#include "models/architectures.h"
#include "models/builder.h"

namespace ndtrain::models {
namespace {

constexpr double kEpsilon = 1e-6;

class VitBuilder {
 public:
  VitBuilder(const Vit& v, const BuildOptions& o)
      : v_(v),
        b_(o.seed, o.img_size,
           {.conv = fan_in_truncated_normal(), .linear = xavier_uniform(), .bias = constant(0)}),
        classes_(o.classes) {
    if (v.patch < 1 || o.img_size % v.patch != 0) {
      throw Error("vit: patches of ", v.patch, " pixels do not tile a picture of ", o.img_size);
    }
    if (v.heads < 1 || v.width < 1 || v.width % v.heads != 0) {
      throw Error("vit: ", v.heads, " heads do not divide the width ", v.width);
    }
    if (v.depth < 1) throw Error("vit: a depth of ", v.depth);
  }

  Model build() {
    Value x = tokens();
    for (int64_t i = 0; i < v_.depth; ++i) {
      x = layer("encoder.layers.encoder_layer_" + std::to_string(i), x);
    }
    x = b_.layer_norm("encoder.ln", x, kEpsilon);
    const Value token = b_.node("Gather", {x, b_.integer(0)}, {{"axis", int64_t{1}}});
    // torchvision starts the head at zero, where no gradient reaches anything else in the first
    // step and all pictures have the same logits; this is the paper's successors' choice.
    const Value weight =
        b_.param("heads.head.weight", {classes_, v_.width}, truncated_normal(0.02));
    const Value bias = b_.param("heads.head.bias", {classes_}, constant(0));
    return b_.finish(b_.linear(token, weight, bias));
  }

 private:
  using Value = Builder::Value;

  // [N, 1 + patches, width]: the class token, then the patches, with their positions.
  Value tokens() {
    Value x = b_.conv("conv_proj", b_.input(),
                      {.out = v_.width, .kernel = v_.patch, .stride = v_.patch, .bias = true});
    const int64_t patches = b_.shape(x)[2] * b_.shape(x)[3];
    x = b_.transpose(b_.reshape(x, {0, v_.width, patches}), {0, 2, 1});
    const Value token = b_.param("class_token", {1, 1, v_.width}, constant(0));
    const Value batch = b_.node("Shape", {x}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
    const Value shape = b_.concat({batch, b_.ints({1, v_.width})}, 0);
    x = b_.concat({b_.node("Expand", {token, shape}), x});
    return b_.add(x, b_.param("encoder.pos_embedding", {1, patches + 1, v_.width}, normal(0.02)));
  }

  Value layer(const std::string& name, const Value& x) {
    const Value a = b_.add(attention(name, b_.layer_norm(name + ".ln_1", x, kEpsilon)), x);
    Value y = b_.layer_norm(name + ".ln_2", a, kEpsilon);
    y = b_.gelu(mlp(name + ".mlp.0", y, 4 * v_.width));
    return b_.named(b_.add(a, mlp(name + ".mlp.3", y, v_.width)), name);
  }

  Value mlp(const std::string& name, const Value& x, int64_t out) {
    const Value weight = b_.param(name + ".weight", {out, b_.shape(x)[-1]}, xavier_uniform());
    return b_.linear(x, weight, b_.param(name + ".bias", {out}, normal(1e-6)));
  }

  // [N, tokens, width] as [N, heads, tokens, width / heads], by `perm` from [N, tokens, heads, …].
  Value heads(const Value& x, Ints perm) {
    return b_.transpose(b_.reshape(x, {0, b_.shape(x)[1], v_.heads, v_.width / v_.heads}),
                        std::move(perm));
  }

  Value attention(const std::string& layer, const Value& x) {
    const std::string name = layer + ".self_attention.";
    const int64_t w = v_.width;
    const Value weight = b_.param(name + "in_proj_weight", {3 * w, w}, xavier_uniform());
    const Value bias = b_.param(name + "in_proj_bias", {3 * w}, constant(0));
    const auto qkv = b_.nodes("Split", {b_.linear(x, weight, bias), b_.ints({w, w, w})},
                              {{"axis", int64_t{2}}}, 3);
    const double scale = 1 / std::sqrt(static_cast<double>(w / v_.heads));
    const Value q = b_.node("Mul", {heads(qkv[0], {0, 2, 1, 3}), b_.number(scale)});
    const Value k = heads(qkv[1], {0, 2, 3, 1}), v = heads(qkv[2], {0, 2, 1, 3});
    const Value p = b_.node("Softmax", {b_.node("MatMul", {q, k})}, {{"axis", int64_t{-1}}});
    const Value y = b_.transpose(b_.node("MatMul", {p, v}), {0, 2, 1, 3});
    const Value out = b_.param(name + "out_proj.weight", {w, w}, fan_in_uniform());
    return b_.linear(b_.reshape(y, {0, b_.shape(x)[1], w}), out,
                     b_.param(name + "out_proj.bias", {w}, constant(0)));
  }

  const Vit v_;
  Builder b_;
  const int64_t classes_;
};

}  // namespace

Model vit(const BuildOptions& o) { return VitBuilder(o.vit, o).build(); }

Model vit_b_16(const BuildOptions& o) {
  return VitBuilder({.patch = 16, .depth = 12, .width = 768, .heads = 12}, o).build();
}

}  // namespace ndtrain::models
