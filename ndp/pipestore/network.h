// A model as a PipeStore runs it: an extractor, whose outputs are kept as features, and perhaps the
// head behind it. One thread at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/runtime/backend.h"
#include "ndp/engine/engine.h"
#include "ndp/engine/feature_rows.h"
#include "ndp/jobs/classify.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::ndp {

class Network {
 public:
  // Without a head the extractor may be a whole model; `labels` says that it is, and that
  // classify() will be asked.
  Network(ModelFile extractor, std::unique_ptr<ModelFile> head, bool labels, const Device& device,
          int64_t batch);

  const Preprocess& preprocess() const { return extractor_.preprocess; }
  const Digest& id() const { return features_.extractor; }  // keys its features
  uint64_t numerics() const { return features_.numerics; }  // tag of what computes them here
  const FeatureKind& features() const { return features_; }
  // Whether the extractor's rows are features, rather than the logits of a whole model.
  bool has_features() const { return !labels_ || head_; }
  size_t row_bytes() const { return row_bytes_; }  // of one photo's outputs, one after the other
  std::string class_name(int64_t i) const { return (head_ ? *head_ : extractor_).class_name(i); }

  Engine& engine() { return engine_; }
  BatchPlans& plans() { return plans_; }
  // Rows of the extractor's outputs, as the engine and infer_crops() give them.
  std::vector<std::string> rows(const std::vector<Tensor>& outputs, size_t n) const;
  // Neither NaN nor infinite.
  bool is_finite(std::string_view row) const;
  // The k best classes of each row.
  std::vector<std::vector<ClassScore>> classify(std::span<const std::string> rows, int64_t k);

 private:
  ModelFile extractor_;
  std::unique_ptr<ModelFile> head_;
  bool labels_;
  FeatureKind features_;  // or logits
  BatchPlans plans_;
  Engine engine_;
  size_t row_bytes_;
  std::unique_ptr<BatchPlans> head_plans_;
};

}  // namespace ndtrain::ndp
