// The deltas between model files that the Tuner has, and the cheapest way from what a store holds
// to what it wants. Deltas are files of the ModelStore; what they are between stands in their first
// bytes, so nothing else is kept. One thread, but for make_delta_edge().
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {

struct DeltaEdge {
  Digest delta{}, base{}, result{};
  int64_t bytes = 0;
};
using ModelPair = std::pair<Digest, Digest>;  // base, result

// Makes the delta, and a file of it when it is smaller than the result. Any thread. kNotFound when
// a model is gone, kNoSpace, kIo; nothing when it is of no use.
Result<std::optional<DeltaEdge>> make_delta_edge(ModelStore& models, const ModelPair& pair);

class DeltaGraph {
 public:
  // What each edge costs beside its bytes: messages, and time to apply it.
  static constexpr int64_t kEdgeBytes = 256;

  // Finds the deltas that are there. Throws Error.
  explicit DeltaGraph(ModelStore& models);

  // The delta that may be better than those there are: to `wanted`, from the file in its place in
  // the newest version of which the store holds that. Nothing when that was tried before.
  std::optional<ModelPair> worth_trying(const Versions& versions, const Digest& wanted,
                                        std::span<const Digest> held) const;
  // The deltas to a version's files from its parent's, that were not tried before.
  std::vector<ModelPair> from_parent(const Versions& versions, const PublishedModel& model) const;
  bool was_tried(const ModelPair& pair) const { return tried_.contains(pair); }
  // What came of a pair.
  void tried(const ModelPair& pair, const std::optional<DeltaEdge>& edge);

  // In the order in which they are applied; empty when the file itself, of which `rest` bytes lack,
  // is no more.
  std::vector<DeltaEdge> cheapest(const Digest& wanted, std::span<const Digest> held,
                                  int64_t rest) const;

  // Removes deltas from or to a file that is gone; what cannot be removed stays.
  void collect();

 private:
  ModelStore& models_;
  std::multimap<Digest, DeltaEdge> edges_;  // by result
  std::set<ModelPair> tried_;
};

}  // namespace ndtrain::tuner
