#include "framework/train/random_rows.h"

#include "framework/core/rng.h"

namespace ndtrain {

TensorDataset random_rows(const Model& model, int64_t count, uint64_t seed) {
  const Graph g = bind(model, count);
  const Rng rng(seed, "bench");
  std::vector<Tensor> inputs;
  for (ValueId v : g.inputs()) {
    std::vector<double> values(static_cast<size_t>(g.shape(v).count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = rng.normal(i);
    inputs.push_back(Tensor::from_doubles(g.type(v), values));
  }
  const auto classes = static_cast<uint64_t>(g.shape(g.outputs()[0])[1]);
  Rng draw(seed, "bench labels");
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i)
    labels.push_back(static_cast<int64_t>(draw.next_below(classes)));
  return {std::move(inputs), std::move(labels)};
}

}  // namespace ndtrain
