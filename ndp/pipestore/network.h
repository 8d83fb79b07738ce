// A model as a PipeStore runs it: an extractor, whose outputs are kept as features, and perhaps the
// head behind it. Several networks may share an extractor.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "framework/runtime/backend.h"
#include "ndp/engine/engine.h"
#include "ndp/engine/feature_rows.h"
#include "ndp/jobs/classify.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::ndp {

struct Extractor {
  // `is_whole`: of a model without a head, whose rows are logits and no features. `file`: which
  // others may have too.
  Extractor(std::shared_ptr<const ModelFile> file, bool is_whole, const Device& device,
            const EngineOptions& options);

  const std::shared_ptr<const ModelFile> file;
  const ModelFile& model;  // what is in it
  const bool whole;
  const FeatureKind features;  // or logits
  BatchPlans plans;
  Engine engine;
  std::mutex running;  // held by who runs it, or a head behind it
};

class Network {
 public:
  // Without a head the extractor may be a whole model; `labels` says that it is, and that
  // classify() will be asked.
  Network(std::shared_ptr<const ModelFile> extractor, std::unique_ptr<ModelFile> head, bool labels,
          const Device& device, const EngineOptions& options);
  // Behind an extractor that others may have too; it is whole where there is no head.
  Network(std::shared_ptr<Extractor> extractor, std::unique_ptr<ModelFile> head,
          const Device& device, const EngineOptions& options);

  const Preprocess& preprocess() const { return extractor_->model.preprocess; }
  const Digest& id() const { return features().extractor; }  // keys its features
  uint64_t numerics() const { return features().numerics; }  // tag of what computes them here
  const FeatureKind& features() const { return extractor_->features; }
  // Whether the extractor's rows are features, rather than the logits of a whole model.
  bool has_features() const { return !extractor_->whole; }
  size_t row_bytes() const { return row_bytes_; }  // of one photo's outputs, one after the other
  std::string class_name(int64_t i) const {
    return (head_ ? *head_ : extractor_->model).class_name(i);
  }

  // Held by who runs what follows, where others may share the extractor.
  std::mutex& running() { return extractor_->running; }
  Engine& engine() { return extractor_->engine; }
  BatchPlans& plans() { return extractor_->plans; }
  // Rows of the extractor's outputs, as the engine and infer_crops() give them.
  std::vector<std::string> rows(const std::vector<Tensor>& outputs, size_t n) const;
  // Neither NaN nor infinite.
  bool is_finite(std::string_view row) const;
  // The k best classes of each row.
  std::vector<std::vector<ClassScore>> classify(std::span<const std::string> rows, int64_t k);

 private:
  std::shared_ptr<Extractor> extractor_;
  std::unique_ptr<ModelFile> head_;
  size_t row_bytes_;
  std::unique_ptr<BatchPlans> head_plans_;
};

}  // namespace ndtrain::ndp
