#include "tuner/promotion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/graph/inference.h"
#include "framework/runtime/batch_plans.h"
#include "framework/train/evaluate.h"
#include "framework/train/step_graph.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain {
namespace {

// The rows of a dataset whose classes a version knows, labelled as it counts them.
class KnownRows final : public Dataset {
 public:
  KnownRows(SpoolDataset& all, const std::vector<std::string>& classes,
            const std::vector<std::string>& known)
      : all_(all) {
    for (int64_t row = 0; row < all.size(); ++row) {
      const auto label = static_cast<size_t>(all.labels()[static_cast<size_t>(row)]);
      const auto at = std::ranges::find(known, classes.at(label));
      if (at == known.end()) continue;
      rows_.push_back(row);
      labels_.push_back(at - known.begin());
    }
  }

  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    std::vector<int64_t> of_all;
    for (const int64_t row : rows) of_all.push_back(rows_.at(static_cast<size_t>(row)));
    all_.fetch(of_all, inputs, labels);
    for (size_t i = 0; i < rows.size(); ++i) labels[i] = labels_[static_cast<size_t>(rows[i])];
  }

 private:
  SpoolDataset& all_;
  std::vector<int64_t> rows_, labels_;
};

}  // namespace

std::optional<int64_t> right_answers(const PublishedModel& version, const ValidationRows& on) {
  if (version.extractor != on.extractor || version.head == version.extractor) return std::nullopt;
  const ModelFile head = load_model(on.fs, on.models.path(version.head));
  KnownRows known(on.rows, on.classes, version.classes);
  if (known.size() == 0) return 0;
  BatchPlans plans([&](int64_t n) { return inference_graph(head.model, n, with_plain_logits); },
                   on.device, on.batch);
  const Evaluation e = evaluate(plans, known, on.row_types);
  return std::llround(e.top1 * static_cast<double>(e.rows));
}

Promotion judge(const std::optional<PublishedModel>& production, int64_t right,
                const ValidationRows& on) {
  if (!production) return {.instead_of = 0, .why = "nothing is in force yet: it is now"};
  const int64_t n = on.rows.size();
  if (n == 0) {
    return {.why = "the rule cannot be applied, as there are no validation photos: it waits"};
  }
  const std::optional<int64_t> theirs = right_answers(*production, on);
  if (!theirs) {
    return {.why = fmt::format("the rule cannot be applied, as version {}, which is in force, has "
                               "another extractor, and these features say nothing of it: it waits",
                               production->version)};
  }
  const auto share = [&](int64_t answers) {
    return static_cast<double>(answers) / static_cast<double>(n);
  };
  Promotion p{.production = share(*theirs)};
  const bool takes_its_place = right >= *theirs;
  if (takes_its_place) p.instead_of = production->version;
  p.why = fmt::format(
      "top-1 {:.4f} on {} validation photos, against {:.4f} of version {}, which is in force: {}",
      share(right), n, *p.production, production->version,
      takes_its_place ? "it takes its place" : "it waits");
  return p;
}

}  // namespace ndtrain
