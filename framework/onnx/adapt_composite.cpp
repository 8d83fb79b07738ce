// Which operators are others put together, and which are refused for what they give.
#include "framework/onnx/adapt.h"

namespace ndtrain {
namespace {

// Shapes are known before anything runs.
void depends_on_data(Adaptation& a) {
  a.refuse(
      "how many numbers it gives depends on the data: only operators whose outputs' shapes "
      "follow from the inputs' are supported; end the model before it");
}

template <void (*F)(Adaptation&)>
void adapt_as(Adaptation& a) try {
  if (!a.refused_before()) F(a);
} catch (const Error& e) {
  a.refuse(e.what());
}

constexpr int kAll = kMaxOpset;

}  // namespace

std::span<const AdaptRule> composite_rules() {
  static const std::vector<AdaptRule> rules = {
      {{"NonMaxSuppression", "Unique"}, 1, kAll, depends_on_data},
      {{"GroupNormalization"}, 1, kAll, adapt_as<adapt_group_norm>},
      // What ONNX Runtime writes as if it were ONNX's.
      {{"SimplifiedLayerNormalization"},
       1,
       kAll,
       [](Adaptation& a) { a.node.op = "RMSNormalization"; }},
      {{"RMSNormalization"}, 1, kAll, adapt_as<adapt_rms_norm>},
      {{"LpNormalization"}, 1, kAll, adapt_as<adapt_lp_norm>},
      {{"MeanVarianceNormalization"}, 1, kAll, adapt_as<adapt_mean_variance_norm>},
      {{"NegativeLogLikelihoodLoss"}, 1, kAll, adapt_as<adapt_nll_loss>},
      {{"SoftmaxCrossEntropyLoss"}, 1, kAll, adapt_as<adapt_cross_entropy_loss>},
      {{"Swish"}, 1, kAll, adapt_as<adapt_swish>},
      {{"SwiGLU"}, 1, kAll, adapt_as<adapt_swi_glu>},
      {{"Shrink"}, 1, kAll, adapt_as<adapt_shrink>},
      {{"Hardmax"}, 1, kAll, adapt_as<adapt_hardmax>},
      {{"IsInf"}, 1, kAll, adapt_as<adapt_is_inf>},
      {{"GlobalLpPool"}, 1, kAll, adapt_as<adapt_global_lp_pool>},
      {{"CenterCropPad"}, 1, kAll, adapt_as<adapt_center_crop_pad>},
      {{"RotaryEmbedding"}, 1, kAll, adapt_as<adapt_rotary>},
      {{"Einsum"}, 1, kAll, adapt_as<adapt_einsum>},
      {{"Attention"}, 23, kAll, adapt_attention},
  };
  return rules;
}

}  // namespace ndtrain
