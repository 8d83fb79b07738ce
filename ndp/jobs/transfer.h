#pragma once

#include <string>
#include <vector>

#include "framework/train/head.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::ndp {

// A model prepared for fine-tuning on some classes: what runs where the photos are, and what is
// trained behind it. `whole` is one after the other, and what is exported.
struct TransferModel {
  Model whole, extractor, head;
  std::vector<std::string> trainable;
  std::vector<std::string>
      features;     // what crosses; empty when nothing is frozen, as are `cut` and `extractor`
  std::string cut;  // their names before rounding
  Digest extractor_id{};
};

// `head`: "keep", "linear" or "grow". A kept head keeps its weights too when the classes are those
// the model has already; one that grows keeps those of the model's classes, which `classes` begin
// with. `cut` names one of the useful_cuts() in front of where training begins, ""; what is frozen
// behind it is part of `head`. `cache_dtype` f16 rounds what crosses. A precision that `from`
// declares ends at the features. Throws Error.
TransferModel prepare_transfer(const ModelFile& from, const std::vector<std::string>& classes,
                               const std::string& head, const std::string& freeze,
                               DType cache_dtype, uint64_t seed, const std::string& cut = "");

// The same with `whole` computing in another precision before the cut: one that lowered() has made
// of t.whole. Cuts it anew.
TransferModel with_whole(TransferModel t, Model whole, const Preprocess& preprocess);

// The same with what `other` computes before the cut: a `whole` that was prepared alike, for other
// classes perhaps, and then lowered.
TransferModel with_extractor_of(TransferModel t, const Model& other, const Preprocess& preprocess);

}  // namespace ndtrain::ndp
