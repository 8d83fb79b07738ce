#include "tuner/work/answers.h"

#include <cmath>

#include "framework/passes/inference.h"
#include "framework/runtime/batch_plans.h"
#include "framework/train/step_graph.h"
#include "ndp/jobs/model_file.h"

namespace ndtrain::tuner {
using namespace ndp;

Answers answers_in(const Evaluation& e, std::span<const Digest> photos,
                   const std::vector<std::string>& classes) {
  Answers answers;
  for (size_t i = 0; i < photos.size(); ++i) {
    const bool number = !std::isnan(e.true_probability.at(i));
    answers[photos[i]] = number ? classes.at(static_cast<size_t>(e.predicted.at(i))) : "";
  }
  return answers;
}

Answers answers_of(const PublishedModel& version, Spool& spool, std::span<const Digest> photos,
                   const std::vector<TensorType>& row_types, const AnswerRules& rules) {
  std::vector<Digest> here;
  for (const Digest& photo : photos) {
    if (spool.has(photo)) here.push_back(photo);
  }
  if (here.empty()) return {};
  const ModelFile head = rules.models.load(version.head);
  BatchPlans plans([&](int64_t n) { return inference_graph(head.model, n, with_plain_logits); },
                   rules.device, rules.batch);
  SpoolDataset rows(spool, here, std::vector<int64_t>(here.size(), 0), row_types);  // any label
  return answers_in(evaluate(plans, rows, row_types), here, version.classes);
}

}  // namespace ndtrain::tuner
