#include "framework/parallel/simulate.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/parallel/buckets.h"

namespace ndtrain {
namespace {

using Lane = StepPrediction::Lane;

// The lanes' clocks over one period.
class Period {
 public:
  Period(const CommPlan& plan, const CostProfile& costs, std::vector<StepPrediction::Span>* spans)
      : plan_(plan),
        costs_(costs),
        spans_(spans),
        layers_(layers_of(plan.buckets, costs)),
        missing_(costs.layers.size()),
        gradient_at_(costs.layers.size()),
        slices_at_(plan.buckets.size()) {
    for (const LayerSpan& of : layers_) {
      for (size_t l = of.front; l <= of.back; ++l) ++missing_[l];
    }
    if (plan.shard_optimizer) slice_update_s_ = costs.optimizer_s_per_element / costs.ranks;
  }

  // The end of the forward pass.
  double play() {
    backward();
    for (size_t i = 0; i < plan_.ops.size();) {
      size_t end = i + 1;
      while (end < plan_.ops.size() && plan_.ops[end].with_previous) ++end;
      call(i, end);
      i = end;
      if (plan_.update_late) forward();
    }
    if (!plan_.update_late) {
      computed_ = std::max(computed_, carried_);
      if (!plan_.shard_optimizer) update("U", costs_.parameter_count());
      forward();
    }
    return computed_;
  }

 private:
  void compute(const char* what, size_t layer, double seconds) {
    const double begin = computed_;
    computed_ += seconds;
    if (spans_ != nullptr) {
      spans_->push_back({what + std::to_string(layer), Lane::kComputing, begin, computed_});
    }
  }

  void update(const std::string& name, int64_t elements) {
    const double begin = computed_;
    computed_ += costs_.optimizer_s_per_element * static_cast<double>(elements);
    if (spans_ != nullptr && computed_ > begin) {
      spans_->push_back({name, Lane::kComputing, begin, computed_});
    }
  }

  void backward() {
    for (size_t l = costs_.layers.size(); l-- > 0;) {
      compute("B", l, costs_.layers[l].backward_s);
      gradient_at_[l] = computed_;
    }
    arrived_.assign(costs_.layers.size(), computed_);
  }

  // As far as the layers have arrived.
  void forward() {
    while (next_ < missing_.size() && missing_[next_] == 0) {
      computed_ = std::max(computed_, arrived_[next_]);
      if (plan_.update_late && !plan_.shard_optimizer) {
        update("U" + std::to_string(next_), costs_.layers[next_].elements);
      }
      forward_at_.push_back(computed_);
      compute("F", next_, costs_.layers[next_].forward_s);
      ++next_;
    }
  }

  // When the data of an operation are there.
  double ready(const PlannedOp& op) const {
    const auto bucket = static_cast<size_t>(op.bucket);
    if (takes_gradients(op.kind)) return gradient_at_[layers_[bucket].front];
    double at = slices_at_[bucket];
    if (plan_.prefetch > 0 && op.bucket >= plan_.prefetch) {
      const auto before = static_cast<size_t>(op.bucket - plan_.prefetch);
      const size_t layer = layers_[before].front;
      if (layer >= forward_at_.size()) {
        throw Error("plan: ", symbol(op.kind), op.bucket, " waits for the forward pass of bucket ",
                    before, ", which waits for it");
      }
      at = std::max(at, forward_at_[layer]);
    }
    return at;
  }

  // Operations [i, end) in one.
  void call(size_t i, size_t end) {
    double begin = carried_, alpha = 0, bytes_s = 0;
    std::string name;
    for (size_t k = i; k < end; ++k) {
      const PlannedOp& op = plan_.ops[k];
      const auto bucket = static_cast<size_t>(op.bucket);
      const CostProfile::Collective& cost = cost_of(op.kind, costs_);
      begin = std::max(begin, ready(op));
      alpha = std::max(alpha, cost.alpha_s);
      bytes_s += cost.bytes_s(plan_.buckets[bucket].size());
      if (spans_ != nullptr) {
        name += (k == i ? "" : "+") + (symbol(op.kind) + std::to_string(op.bucket));
      }
    }
    carried_ = begin + alpha + bytes_s;
    if (spans_ != nullptr) spans_->push_back({name, Lane::kLink, begin, carried_});
    for (size_t k = i; k < end; ++k) arrive(plan_.ops[k]);
  }

  void arrive(const PlannedOp& op) {
    const auto bucket = static_cast<size_t>(op.bucket);
    const LayerSpan& of = layers_[bucket];
    if (!completes(op.kind)) {
      const auto elements = static_cast<double>(plan_.buckets[bucket].size());
      slices_at_[bucket] = carried_ + slice_update_s_ * elements;
      return;
    }
    for (size_t l = of.front; l <= of.back; ++l) {
      arrived_[l] = std::max(arrived_[l], carried_);
      --missing_[l];
    }
  }

  const CommPlan& plan_;
  const CostProfile& costs_;
  std::vector<StepPrediction::Span>* spans_;
  const std::vector<LayerSpan> layers_;  // of buckets
  std::vector<int> missing_;             // buckets of a layer that are still to come
  double slice_update_s_ = 0;            // for an element of a bucket

  double computed_ = 0, carried_ = 0;                       // the lanes are free from then on
  size_t next_ = 0;                                         // layer of the forward pass
  std::vector<double> gradient_at_, arrived_, forward_at_;  // of layers
  std::vector<double> slices_at_;  // of buckets: their sums are made, and gathered from then on
};

}  // namespace

const CostProfile::Collective& cost_of(PlannedOp::Kind kind, const CostProfile& costs) {
  switch (kind) {
    case PlannedOp::Kind::kReduceScatter:
      return costs.reduce_scatter;
    case PlannedOp::Kind::kAllGather:
      return costs.all_gather;
    case PlannedOp::Kind::kAllReduce:
      return costs.all_reduce;
    case PlannedOp::Kind::kReduce:
      return costs.reduce;
    case PlannedOp::Kind::kBroadcast:
      return costs.broadcast;
  }
  throw Error("cost profile: an operation of unknown kind ", static_cast<int>(kind));
}

double lower_bound_s(const CostProfile& costs, bool shard_optimizer) {
  const int64_t elements = costs.parameter_count();
  const auto both = [](const CostProfile::Collective& a, const CostProfile::Collective& b) {
    return CostProfile::Collective{a.alpha_s + b.alpha_s, a.beta_s_per_byte + b.beta_s_per_byte};
  };
  CostProfile::Collective least = both(costs.reduce_scatter, costs.all_gather);
  double computing = costs.computing_s();
  if (shard_optimizer) {
    computing -= costs.optimizer_s_per_element * static_cast<double>(elements);
  } else {
    // Latency and bytes apart: a plan may mix the kinds.
    for (const auto& other : {costs.all_reduce, both(costs.reduce, costs.broadcast)}) {
      least.alpha_s = std::min(least.alpha_s, other.alpha_s);
      least.beta_s_per_byte = std::min(least.beta_s_per_byte, other.beta_s_per_byte);
    }
  }
  return std::max(computing, least.seconds(elements));
}

StepPrediction simulate(const CommPlan& plan, const CostProfile& costs) {
  validate(costs);
  validate(plan, costs.parameter_count());
  StepPrediction p;
  p.step_s = Period(plan, costs, &p.spans).play();
  p.bound_s = lower_bound_s(costs, plan.shard_optimizer);
  for (const StepPrediction::Span& s : p.spans) {
    if (s.lane == Lane::kComputing) p.computing_s += s.end_s - s.begin_s;
  }
  p.exposed_s = p.step_s - p.computing_s;
  return p;
}

double predicted_step_s(const CommPlan& plan, const CostProfile& costs) {
  return Period(plan, costs, nullptr).play();
}

}  // namespace ndtrain
