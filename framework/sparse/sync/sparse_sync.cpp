#include "framework/sparse/sync/sparse_sync.h"

#include <algorithm>

#include "framework/core/byte_reader.h"
#include "framework/core/finite.h"
#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"
#include "framework/sparse/selection/selection_codec.h"

namespace ndtrain {
namespace {

// Flags of a rank.
constexpr uint8_t kNotFinite = 1, kStop = 2;

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
      worker_(optimizer_) {
  if (shared.optimizer.config().clip_norm > 0) {
    throw Error("sparse gradients are not clipped: what of them is sent at a step has no norm");
  }
  if (options.compressing.unbiased) {
    throw Error("what is kept for later is sent later: values scaled for it would count twice");
  }
  const OptimizerConfig& optimizer = shared.optimizer.config();
  if (options.momentum > 0 &&
      (optimizer.kind != OptimizerConfig::Kind::kSgd || optimizer.momentum > 0)) {
    throw Error("where gradients have momentum before they are sent, the optimizer is sgd without");
  }
  indices_.resize(shared.parameters.slots().size());
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
  const std::vector<double>& first = options_.first_drops;
  count_elements(epoch < std::ssize(first) ? first[static_cast<size_t>(epoch)] : options_.drop);
}

void SparseSync::begin(const HyperParameters& hyper) {
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
  reports_.share(reports, static_cast<uint8_t>(flags));
  stopped_ |= (reports_.flags() & kStop) != 0;
}

// A varint for the bytes of each slot's, then these.
std::string SparseSync::selections_of_this_rank() {
  std::string all;
  Selection selection;
  const std::span<const ParameterSlot> slots = shared_.parameters.slots();
  const bool known = feedback_.compressor().indices_are_known();
  for (size_t s = 0; s < slots.size(); ++s) {
    const ParameterRange range = slots[s].range;
    feedback_.add(s,
                  {shared_.gradients.sums()[0] + range.begin, static_cast<size_t>(range.size())});
    feedback_.take(s, count_[s], scratch_, selection);
    const std::string bytes = known ? encode_values(selection.values, options_.wire)
                                    : encode(selection, range.size(), options_.wire);
    put_varint(all, bytes.size());
    all += bytes;
    if (known) indices_[s] = selection.indices;
  }
  return all;
}

void SparseSync::backward_done() {
  if ((reports_.flags() & kNotFinite) != 0) {
    ++left_out_;
    log::warn("a step is left out: gradients are not finite");
    shared_.optimizer.leave_out();
    return;
  }
  ++steps_;
  const std::string ours = selections_of_this_rank();
  sent_bytes_ += static_cast<int64_t>(ours.size());
  apply(gather(communicator_, ours));
}

void SparseSync::apply(const std::vector<std::string>& of_ranks) {
  const std::span<const ParameterSlot> slots = shared_.parameters.slots();
  const Compressor& compressor = feedback_.compressor();
  std::vector<ByteReader> in(of_ranks.begin(), of_ranks.end());
  std::vector<Selection> selections(of_ranks.size());
  for (size_t s = 0; s < slots.size(); ++s) {
    const ParameterRange range = slots[s].range;
    for (size_t r = 0; r < in.size(); ++r) {
      const std::string_view bytes = in[r].bytes(in[r].varint());
      const Status read = compressor.indices_are_known()
                              ? decode_values(bytes, indices_[s], selections[r])
                              : decode(bytes, range.size(), selections[r]);
      if (!read.ok()) throw Error("rank ", r, ", ", slots[s].name, ": ", read.message());
      const int64_t expected = compressor.takes_all() ? range.size() : count_[s];
      if (std::ssize(selections[r].indices) != expected) {
        throw Error("rank ", r, ", ", slots[s].name, ": ", selections[r].indices.size(),
                    " elements were sent, ", expected,
                    " are expected; all ranks need the same compressor and drop");
      }
    }
    const std::span<float> values(shared_.parameters.values(range.begin),
                                  static_cast<size_t>(range.size()));
    optimizer_.apply(s, sum_of(selections), hyper_, values, worker_);
  }
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
