#include "framework/sparse/sync/sparse_sync.h"

#include <algorithm>
#include <chrono>

#include "framework/core/clock.h"
#include "framework/core/finite.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"

namespace ndtrain {
namespace {

// Flags of a rank.
constexpr uint8_t kNotFinite = 1, kStop = 2;

// Adds how long it lives.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), begun_(system_clock().monotonic()) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(system_clock().monotonic() - begun_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  const std::chrono::nanoseconds begun_;
};

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
      reports_(shared, communicator, communicator.members(), std::move(first_shards)),
      feedback_(shared.parameters.slots(), make_compressor(options.compressor, options.compressing),
                options.seed, options.wire, options.momentum),
      optimizer_(shared.optimizer, shared.parameters, shared.device, options.optimizer),
      worker_(optimizer_),
      exchange_({shared.parameters.slots().begin(), shared.parameters.slots().end()}, feedback_,
                communicator, options.wire) {
  if (shared.optimizer.config().clip_norm > 0) {
    throw Error("sparse gradients are not clipped: what of them is sent at a step has no norm");
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
  for (const double drop : options.first_drops) count_elements(drop);
  count_elements(options.drop);
}

void SparseSync::count_elements(double drop) {
  const auto ranks = static_cast<int>(communicator_.members().size());
  count_.clear();
  for (const ParameterSlot& slot : shared_.parameters.slots()) {
    count_.push_back(elements_to_send(slot.range.size(), drop, ranks));
  }
}

void SparseSync::begin_epoch(int64_t epoch) {
  flush();
  const std::vector<double>& first = options_.first_drops;
  count_elements(epoch < std::ssize(first) ? first[static_cast<size_t>(epoch)] : options_.drop);
}

void SparseSync::begin(const HyperParameters& hyper) {
  while (std::ssize(pending_) > options_.staleness) apply_oldest();
  hyper_ = hyper;
  reports_.enqueue();
}

// The gradient of this rank's shards: the sums of its subtrees, from the left.
std::span<const float> SparseSync::add_up_own(const ParameterSlot& slot) const {
  const std::vector<float*>& sums = shared_.gradients.sums();
  const auto size = static_cast<size_t>(slot.range.size());
  const std::span<float> own(sums[0] + slot.range.begin, size);
  for (size_t tree = 1; tree < sums.size(); ++tree) {
    const float* const more = sums[tree] + slot.range.begin;
    for (size_t i = 0; i < size; ++i) own[i] += more[i];
  }
  return own;
}

// Before anything of the step is kept, all ranks know whether they will apply it.
void SparseSync::share(std::span<ShardReport> reports) {
  bool finite = true;
  for (const ParameterSlot& slot : shared_.parameters.slots()) {
    finite = finite && all_finite(DType::kF32, std::as_bytes(add_up_own(slot)));
  }
  const int flags = (finite ? 0 : kNotFinite) | (stop_ ? kStop : 0);
  const Stopwatch waits(exposed_s_);
  reports_.share(reports, static_cast<uint8_t>(flags));
  stopped_ |= (reports_.flags() & kStop) != 0;
}

void SparseSync::backward_done() {
  if ((reports_.flags() & kNotFinite) != 0) {
    ++left_out_;
    log::warn("a step is left out: gradients are not finite");
    shared_.optimizer.leave_out();
    pending_.emplace_back();
  } else {
    const Stopwatch waits(exposed_s_);
    exchange_.wait_until_taken();
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
  if (options_.staleness == 0) flush();
}

void SparseSync::apply_oldest() {
  const std::optional<HyperParameters> hyper = std::move(pending_.front());
  pending_.pop_front();
  if (!hyper) return;
  std::vector<Selection> sums;
  {
    const Stopwatch waits(exposed_s_);
    sums = exchange_.next();
  }
  const std::span<const ParameterSlot> slots = shared_.parameters.slots();
  for (size_t s = 0; s < slots.size(); ++s) {
    const ParameterRange range = slots[s].range;
    const std::span<float> values(shared_.parameters.values(range.begin),
                                  static_cast<size_t>(range.size()));
    optimizer_.apply(s, sums[s], *hyper, values, worker_);
  }
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
