#include "tuner/work/promotion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/core/json.h"
#include "framework/passes/inference.h"
#include "framework/runtime/batch_plans.h"
#include "framework/train/step_graph.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::tuner {
using namespace ndp;

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
  int64_t row(size_t i) const { return rows_[i]; }  // of the dataset
  int64_t label(size_t i) const { return labels_[i]; }
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

std::optional<std::vector<bool>> right_answers(const PublishedModel& version,
                                               const ValidationRows& on) {
  if (version.extractor != on.extractor || version.head == version.extractor) return std::nullopt;
  const ModelFile head = load_model(on.fs, on.models.checked_path(version.head));
  KnownRows known(on.rows, on.classes, version.classes);
  std::vector<bool> right(static_cast<size_t>(on.rows.size()));
  if (known.size() == 0) return right;
  BatchPlans plans([&](int64_t n) { return inference_graph(head.model, n, with_plain_logits); },
                   on.device, on.batch);
  const Evaluation e = evaluate(plans, known, on.row_types);
  for (size_t i = 0; i < e.predicted.size(); ++i) {
    right[static_cast<size_t>(known.row(i))] = right_at(e, i, known.label(i));
  }
  return right;
}

bool right_at(const Evaluation& e, size_t row, int64_t label) {
  return e.predicted[row] == label && !std::isnan(e.true_probability[row]);
}

// The sum of the binomial probabilities of n draws at one half, from `gained` on.
double mcnemar(int64_t gained, int64_t lost) {
  const int64_t n = gained + lost;
  if (gained <= lost) return n == 0 || gained == 0 ? 1 : 1 - mcnemar(lost + 1, gained - 1);
  const auto all = static_cast<double>(n);
  auto k = static_cast<double>(gained);
  double term = std::exp(std::lgamma(all + 1) - std::lgamma(k + 1) - std::lgamma(all - k + 1) -
                         all * std::log(2.0));
  double sum = 0;
  for (; k <= all && term > sum * 1e-17; ++k) {
    sum += term;
    term *= (all - k) / (k + 1);
  }
  return sum;
}

namespace {

double top1_when_trained(const PublishedModel& m) {
  const auto metrics = try_parse_json(m.metrics);
  const auto top1 = metrics.is_object() ? metrics.value("top1", Json()) : Json();
  return top1.is_number() ? top1.get<double>() : std::nan("");
}

}  // namespace

Promotion judge(const std::optional<PublishedModel>& production, const std::vector<bool>& right,
                const ValidationRows& on) {
  if (!production) return {.instead_of = 0, .why = "nothing is in force yet: it is now"};
  const int64_t n = on.rows.size(), ours = std::ranges::count(right, true);
  if (n == 0) {
    return {.why = "the rule cannot be applied, as there are no validation photos: it waits"};
  }
  const auto share = [&](int64_t answers) {
    return static_cast<double>(answers) / static_cast<double>(n);
  };
  Promotion p{.figures = fmt::format("top-1 {:.4f} on {} validation photos", share(ours), n)};
  const std::string in_force = fmt::format("version {}, which is in force", production->version);
  const std::optional<std::vector<bool>> theirs = right_answers(*production, on);
  if (!theirs) {
    p.figures += fmt::format(", and {:.4f} of {}, on those of its own job",
                             top1_when_trained(*production), in_force);
    p.why = fmt::format(
        "{}: the rule cannot be applied, as version {} has another extractor, and these features "
        "say nothing of it: it waits",
        p.figures, production->version);
    return p;
  }
  p.production = share(std::ranges::count(*theirs, true));
  p.figures += fmt::format(", against {:.4f} of {}", *p.production, in_force);
  int64_t gained = 0, lost = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    gained += right[i] && !(*theirs)[i];
    lost += !right[i] && (*theirs)[i];
  }
  p.chance = mcnemar(gained, lost);
  if (*p.chance < kByChance) p.instead_of = production->version;
  p.why = p.figures;
  if (p.instead_of) {
    p.why += ": it takes its place";
  } else if (gained > lost) {
    p.why += fmt::format(
        ": {} photos gained and {} lost may be chance (McNemar's test, p {:.3f}): it waits", gained,
        lost, *p.chance);
  } else {
    p.why += gained == lost ? ": as many, so it waits" : ": it waits";
  }
  return p;
}

}  // namespace ndtrain::tuner
