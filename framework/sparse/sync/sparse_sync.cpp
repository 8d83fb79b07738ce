#include "framework/sparse/sync/sparse_sync.h"

#include <algorithm>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/stopwatch.h"
#include "framework/sparse/sync/drops.h"

namespace ndtrain {
namespace {

ErrorFeedback::Pieces pieces_of(const Sites& sites, bool pieces) {
  if (!pieces) return {};
  return {.count = sites.count(), .rank = sites.place()};
}

}  // namespace

SparseSyncOptions deep_gradient_compression(double momentum, double drop) {
  SparseSyncOptions options{.compressor = "topk", .drop = drop, .momentum = momentum};
  for (const double first : {0.75, 0.9375, 0.984375, 0.996}) {
    options.first_drops.push_back(std::min(first, drop));
  }
  return options;
}

SparseSync::SparseSync(const Trainer::Shared& shared, Communicator& communicator,
                       std::vector<int> first_shards, const SparseSyncOptions& options)
    : shared_(shared),
      communicator_(communicator),
      options_(options),
      sites_(communicator, options.sites),
      reports_(shared, communicator, communicator.members(), first_shards),
      gradient_(shared, communicator, sites_),
      vote_(shared, gradient_),
      feedback_(shared.parameters.slots(), make_compressor(options.compressor, options.compressing),
                options.seed, options.wire, options.momentum, pieces_of(sites_, options.pieces)),
      optimizer_(shared.optimizer, shared.parameters, shared.device, options.optimizer),
      worker_(optimizer_),
      own_drops_(drops_of(shared.parameters.slots(), options.drops)),
      first_shards_(std::move(first_shards)),
      exchange_({shared.parameters.slots().begin(), shared.parameters.slots().end()}, feedback_,
                communicator, sites_, options.wire, options.route, options.largest_of_sums) {
  if (shared.optimizer.config().clip_norm > 0) {
    throw Error("sparse gradients are not clipped: what of them is sent at a step has no norm");
  }
  if (shared.optimizer.config().layer_decay != 1) {
    throw Error("sparse gradients are applied at one rate: there is no layer decay");
  }
  if (shared.optimizer.config().has_rates()) {
    throw Error("sparse gradients are applied at one rate: there is none of some parameters");
  }
  if (options.compressing.unbiased) {
    throw Error("what is kept for later is sent later: values scaled for it would count twice");
  }
  if (options.staleness < 0 || options.staleness > limits::kSparseStaleness) {
    throw Error("staleness is ", options.staleness, ": 0 to ", limits::kSparseStaleness);
  }
  const OptimizerConfig& optimizer = shared.optimizer.config();
  if (options.momentum > 0 &&
      (optimizer.kind != OptimizerConfig::Kind::kSgd || optimizer.momentum > 0)) {
    throw Error("where gradients have momentum before they are sent, the optimizer is sgd without");
  }
  if (options.control && (!options.first_drops.empty() ||
                          make_compressor(options.compressor, options.compressing)->takes_all())) {
    throw Error("a controller decides of the drop: not of signs, nor where epochs have their own");
  }
  if (options.control && !options.control->one_site_waits && sites_.count() == 1) {
    throw Error("a controller is for two sites or more: one sends nothing");
  }
  for (const double drop : options.first_drops) count_elements(drop, true);
  count_elements(options.drop, false);
}

void SparseSync::count_elements(double drop, bool is_first) {
  const std::span<const ParameterSlot> slots = shared_.parameters.slots();
  count_.clear();
  counted_drop_ = drop;
  for (size_t s = 0; s < slots.size(); ++s) {
    const double own = own_drops_[s].value_or(drop);
    count_.push_back(elements_to_send(slots[s].range.size(), is_first ? std::min(own, drop) : own,
                                      sites_.count()));
  }
}

void SparseSync::begin_epoch(int64_t epoch) {
  flush();
  const bool is_first = epoch < std::ssize(options_.first_drops);
  count_elements(is_first ? options_.first_drops[static_cast<size_t>(epoch)] : options_.drop,
                 is_first);
  if (options_.control && !control_) begin_control();
}

void SparseSync::begin_control() {
  constexpr uint64_t kMany = 1 << 16;  // scales of integers count
  SelectionSizes sizes{.value_bytes =
                           static_cast<double>(value_bytes(kMany, options_.wire)) / kMany};
  for (const ParameterSlot& slot : shared_.parameters.slots()) {
    sizes.elements.push_back(slot.range.size());
  }
  if (feedback_.indices_are_known()) sizes.index_bytes = 0;
  control_ = std::make_unique<RateControl>(*options_.control, communicator_, first_shards_,
                                           room_ ? room_() : 0, std::move(sizes), options_.drop,
                                           options_.seed, sites_.count());
}

BatchSizes SparseSync::batch_sizes(std::function<int64_t()> room) {
  if (!options_.control) return {};
  room_ = std::move(room);
  return [this](int64_t left) { return control_->next_sizes(left); };
}

// To know when the forward pass of a step is over.
bool SparseSync::passes_apart() const {
  const RankGroup members = communicator_.members();
  const auto place =
      static_cast<size_t>(std::ranges::find(members, communicator_.rank()) - members.begin());
  return options_.control && options_.control->passes_apart &&
         first_shards_[place + 1] - first_shards_[place] == 1;
}

void SparseSync::begin(const HyperParameters& hyper) {
  while (std::ssize(pending_) > options_.staleness + 1) apply_oldest();
  if (std::ssize(pending_) > options_.staleness) begin_oldest();
  hyper_ = hyper;
  gradient_.enqueue();
  reports_.enqueue();
  if (control_) {
    if (control_->drop() != counted_drop_) count_elements(control_->drop(), false);
    control_->enqueue();
  }
  clock_.begin(exposed_s_, agreeing_s_);
}

void SparseSync::before_read(size_t slot, ndt_stream* /*stream*/) {
  if (!to_apply_.empty()) apply(slot);
}

void SparseSync::forward_done() {
  if (passes_apart()) clock_.forward_done(exposed_s_);
}

void SparseSync::add_up_statistics() {
  const double waited_before = exposed_s_;
  gradient_.end(exposed_s_);
  agreeing_s_ += exposed_s_ - waited_before;
  reports_.add_up_statistics();
}

void SparseSync::share(std::span<ShardReport> reports) {
  if (!to_apply_.empty()) apply_oldest();  // what nobody has read
  clock_.computed(exposed_s_);
  if (control_) control_->tell(last_step());
  const double waited_before = exposed_s_;
  vote_.share(reports_, reports, exposed_s_);
  if (control_) {
    const Stopwatch waits(exposed_s_);
    control_->take();
  }
  agreeing_s_ += exposed_s_ - waited_before;
}

std::optional<RatesNow> SparseSync::rates() const {
  if (!control_ || !control_->controller()) return std::nullopt;
  const RateController& controller = *control_->controller();
  return RatesNow{.decisions = control_->decisions(),
                  .decided = controller.decided(),
                  .link_mbps = controller.bandwidth_mbps()};
}

Telemetry SparseSync::last_step() const {
  Telemetry last = clock_.last();
  const SparseExchange::Rates rates = exchange_.rates();
  last.send_mbps = rates.send_mbps;
  last.receive_mbps = rates.receive_mbps;
  return last;
}

void SparseSync::backward_done() {
  if (!vote_.is_finite()) {
    ++left_out_;
    log::warn("a step is left out: gradients are not finite");
    shared_.optimizer.leave_out();
    pending_.emplace_back();
  } else {
    {
      const Stopwatch waits(exposed_s_);
      exchange_.wait_until_taken();
    }
    const std::span<const ParameterSlot> slots = shared_.parameters.slots();
    for (size_t s = 0; s < slots.size(); ++s) {
      const ParameterRange range = slots[s].range;
      feedback_.add(s,
                    {shared_.gradients.sums()[0] + range.begin, static_cast<size_t>(range.size())});
    }
    ++steps_;
    exchange_.begin(count_);
    pending_.emplace_back(hyper_);
  }
}

// What it has sent is applied from here on, slot by slot.
void SparseSync::begin_oldest() {
  if (pending_.front()) {
    to_apply_.assign(shared_.parameters.slots().size(), true);
  } else {
    pending_.pop_front();
  }
}

void SparseSync::apply(size_t slot) {
  if (!to_apply_[slot]) return;
  Selection sum;
  {
    const Stopwatch waits(exposed_s_);
    sum = exchange_.sum(slot);
  }
  to_apply_[slot] = false;
  const ParameterRange range = shared_.parameters.slots()[slot].range;
  const std::span<float> values(shared_.parameters.values(range.begin),
                                static_cast<size_t>(range.size()));
  optimizer_.apply(slot, sum, *pending_.front(), values, worker_);
}

void SparseSync::apply_oldest() {
  if (to_apply_.empty()) begin_oldest();
  if (to_apply_.empty()) return;
  for (size_t s = to_apply_.size(); s-- > 0;) apply(s);
  to_apply_.clear();
  pending_.pop_front();
}

void SparseSync::flush() {
  while (!pending_.empty()) apply_oldest();
}

std::map<std::string, Tensor> SparseSync::state() const {
  std::map<std::string, Tensor> all = feedback_.state();
  all.merge(optimizer_.state());
  return all;
}

void SparseSync::forget() {
  feedback_.forget();
  optimizer_.forget();
}

void SparseSync::restore(const std::map<std::string, Tensor>& state) {
  feedback_.restore(state);
  optimizer_.restore(state);
}

}  // namespace ndtrain
