#include "ndp/jobs/transfer.h"

#include <algorithm>
#include <ranges>

#include "framework/graph/precision.h"
#include "framework/train/useful_cuts.h"

namespace ndtrain::ndp {
namespace {

Model with_head(const ModelFile& from, const std::vector<std::string>& classes,
                const std::string& head, uint64_t seed) {
  const auto n = static_cast<int64_t>(classes.size());
  const Model plain = without_rounded_features(from.model);
  if (head == "linear") return with_linear_head(plain, n, seed);
  if (head == "grow") {
    if (from.classes.empty()) {
      throw Error(from.path,
                  ": does not name its classes, so none can be added; import it with "
                  "--classes FILE");
    }
    if (!std::ranges::equal(from.classes, classes | std::views::take(from.classes.size()))) {
      throw Error(from.path, ": the new classes do not begin with those of the model");
    }
    return with_more_classes(plain, n, seed);
  }
  if (head != "keep") throw Error("--head ", head, ": there are keep, linear and grow");
  return from.classes == classes ? plain : with_new_classifier(plain, n, seed);
}

std::vector<std::string> cut_named(const std::string& name, const TransferModel& t) {
  std::string known;
  for (const std::vector<std::string>& cut : useful_cuts(t.whole, t.trainable)) {
    if (cut_name(cut) == name) return cut;
    known += (known.empty() ? "" : ", ") + cut_name(cut);
  }
  throw Error("cut ", name, ": ",
              known.empty() ? "nothing is frozen, so there is none" : "there are " + known);
}

}  // namespace

TransferModel prepare_transfer(const ModelFile& from, const std::vector<std::string>& classes,
                               const std::string& head, const std::string& freeze,
                               DType cache_dtype, uint64_t seed, const std::string& cut) {
  if (from.model.inputs.size() != 1) {
    throw Error(from.path, ": takes ", from.model.inputs.size(),
                " inputs; a photo model has one: give the others by ndtrain model import --input "
                "NAME=VALUE");
  }
  TransferModel t;
  t.whole = with_head(from, classes, head, seed);
  metadata::set_digest(t.whole, metadata::kParent, from.id());
  t.trainable = trainable_parameters(t.whole, freeze);
  t.features = feature_names(t.whole, t.trainable);
  if (!cut.empty()) t.features = cut_named(cut, t);
  if (t.features.empty()) {
    declare_precision(t.whole, Precision::kF32);
    t.head = t.whole;
    return t;
  }
  t.cut = cut_name(t.features);
  if (cache_dtype == DType::kF16) {
    t.whole = with_rounded_features(t.whole, t.features);
    for (std::string& name : t.features) name += "@f16";
  }
  declare_precision(t.whole, declared_precision(t.whole), t.features);
  t.whole.metadata[metadata::kFeatureDtype] = std::string(name_of(cache_dtype));
  Model whole = t.whole;
  return with_whole(std::move(t), std::move(whole), from.preprocess);
}

TransferModel with_whole(TransferModel t, Model whole, const Preprocess& preprocess) {
  t.whole = std::move(whole);
  const std::vector<std::string> input = {t.whole.inputs[0].name};
  t.extractor = extract(t.whole, input, t.features);
  t.head = extract(t.whole, t.features, t.whole.outputs);
  t.extractor_id = extractor_id(t.extractor, preprocess);
  metadata::set_digest(t.whole, metadata::kExtractorId, t.extractor_id);
  return t;
}

TransferModel with_extractor_of(TransferModel t, const Model& other, const Preprocess& preprocess) {
  const std::vector<std::string> input = {t.whole.inputs[0].name};
  Model before = extract(other, input, t.features);
  Model behind = extract(t.whole, t.features, t.whole.outputs);
  Model whole = t.whole;
  whole.nodes = std::move(before.nodes);
  whole.nodes.insert(whole.nodes.end(), behind.nodes.begin(), behind.nodes.end());
  whole.initialisers = std::move(before.initialisers);
  whole.initialisers.merge(behind.initialisers);
  declare_precision(whole, declared_precision(other), t.features);
  return with_whole(std::move(t), std::move(whole), preprocess);
}

}  // namespace ndtrain::ndp
