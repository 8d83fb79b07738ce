#include "tuner/models/delta_graph.h"

#include <algorithm>
#include <limits>

#include "framework/core/log.h"
#include "ndp/deltas/delta.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr size_t kHeader = 128;  // of a delta: enough for what it is between

bool contains(std::span<const Digest> all, const Digest& one) {
  return std::ranges::find(all, one) != all.end();
}

}  // namespace

Result<std::optional<DeltaEdge>> make_delta_edge(ModelStore& models, const ModelPair& pair) {
  const Result<std::string> base = models.read_all(pair.first);
  if (!base.ok()) return base.status();
  const Result<std::string> result = models.read_all(pair.second);
  if (!result.ok()) return result.status();
  const Result<Delta> delta = make_delta(*base, *result);
  if (!delta.ok() || delta->bytes.size() >= result->size()) return std::optional<DeltaEdge>();
  const Result<Digest> added = models.add(delta->bytes);
  if (!added.ok()) return added.status();
  return std::optional(
      DeltaEdge{*added, pair.first, pair.second, static_cast<int64_t>(delta->bytes.size())});
}

DeltaGraph::DeltaGraph(ModelStore& models) : models_(models) {
  for (const Digest& file : models_.list()) {
    const Result<ModelStore::Part> head = models_.read(file, 0, kHeader);
    if (!head.ok()) continue;
    const Result<DeltaEnds> ends = delta_ends(head->bytes);
    if (ends.ok())
      tried({ends->base, ends->result}, DeltaEdge{file, ends->base, ends->result, head->total});
  }
}

void DeltaGraph::tried(const ModelPair& pair, const std::optional<DeltaEdge>& edge) {
  if (tried_.insert(pair).second && edge) edges_.emplace(pair.second, *edge);
}

std::optional<ModelPair> DeltaGraph::worth_trying(const Versions& versions, const Digest& wanted,
                                                  std::span<const Digest> held) const {
  const std::vector<PublishedModel> all = versions.all();
  const auto of = std::ranges::find_if(all, [&](const auto& m) { return m.has_file(wanted); });
  if (of == all.end() || !models_.has(wanted)) return std::nullopt;
  const auto place = wanted == of->head ? &PublishedModel::head : &PublishedModel::extractor;
  for (auto m = all.rbegin(); m != all.rend(); ++m) {
    const ModelPair pair{(*m).*place, wanted};
    if (!contains(held, pair.first) || pair.first == wanted || !models_.has(pair.first)) continue;
    return tried_.contains(pair) ? std::nullopt : std::optional(pair);
  }
  return std::nullopt;
}

std::vector<ModelPair> DeltaGraph::from_parent(const Versions& versions,
                                               const PublishedModel& model) const {
  const std::optional<PublishedModel> parent = versions.find(model.parent);
  std::vector<ModelPair> pairs;
  if (!parent) return pairs;
  for (const ModelPair& pair :
       {ModelPair{parent->extractor, model.extractor}, ModelPair{parent->head, model.head}}) {
    const bool known = std::ranges::find(pairs, pair) != pairs.end() || tried_.contains(pair);
    if (pair.first != pair.second && !known) pairs.push_back(pair);
  }
  return pairs;
}

// Dijkstra, from what is wanted back to what is held.
std::vector<DeltaEdge> DeltaGraph::cheapest(const Digest& wanted, std::span<const Digest> held,
                                            int64_t rest) const {
  std::map<Digest, std::pair<int64_t, const DeltaEdge*>> best = {{wanted, {0, nullptr}}};
  std::set<std::pair<int64_t, Digest>> open = {{0, wanted}};
  while (!open.empty()) {
    const auto [cost, here] = *open.begin();
    open.erase(open.begin());
    if (contains(held, here)) {
      std::vector<DeltaEdge> way;
      for (Digest at = here; at != wanted; at = way.back().result) {
        way.push_back(*best.at(at).second);
      }
      return way;
    }
    const auto [first, last] = edges_.equal_range(here);
    for (auto it = first; it != last; ++it) {
      const DeltaEdge& edge = it->second;
      const int64_t next = cost + edge.bytes + kEdgeBytes;
      const auto known = best.find(edge.base);
      if (next >= rest || (known != best.end() && known->second.first <= next)) continue;
      if (known != best.end()) open.erase({known->second.first, edge.base});
      best[edge.base] = {next, &edge};
      open.insert({next, edge.base});
    }
  }
  return {};
}

void DeltaGraph::collect() {
  std::erase_if(edges_, [&](const auto& entry) {
    const DeltaEdge& edge = entry.second;
    if (models_.has(edge.base) && models_.has(edge.result)) return false;
    const Status s = models_.remove(edge.delta);
    if (!s.ok() && s.code() != Code::kNotFound) log::warn("{}", s.message());
    return true;
  });
}

}  // namespace ndtrain::tuner
