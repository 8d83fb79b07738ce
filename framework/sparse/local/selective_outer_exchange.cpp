#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "framework/sparse/local/outer_exchange.h"
#include "framework/sparse/sync/error_feedback.h"
#include "framework/sparse/sync/sparse_exchange.h"

namespace ndtrain {
namespace {

class SelectiveOuterExchange final : public OuterExchange {
 public:
  SelectiveOuterExchange(std::span<float> outer, std::span<const ParameterSlot> slots,
                         Communicator& communicator, const Sites& sites,
                         const OuterSelection& options)
      : outer_(outer),
        slots_(slots.begin(), slots.end()),
        feedback_(slots, make_compressor(options.compressor, options.compressing), options.seed,
                  options.wire),
        exchange_(slots_, feedback_, communicator, sites, options.wire, options.route) {
    if (options.compressing.unbiased) {
      throw Error("what is kept for later is sent later: values scaled for it would count twice");
    }
    for (const ParameterSlot& slot : slots_) {
      count_.push_back(elements_to_send(slot.range.size(), options.drop, sites.count()));
    }
  }

  void begin(const Fragment& fragment) override {
    exchange_.wait_until_taken();
    std::vector<int64_t> count(slots_.size());
    for (size_t s = fragment.first_slot; s < fragment.end_slot; ++s) {
      feedback_.add(s, part(s));
      count[s] = count_[s];
    }
    exchange_.begin(std::move(count));
    under_way_.push_back(fragment);
  }

  void end() override {
    const Fragment fragment = under_way_.front();
    under_way_.pop_front();
    for (size_t s = 0; s < slots_.size(); ++s) {
      const Selection sum = exchange_.sum(s);
      if (s < fragment.first_slot || s >= fragment.end_slot) continue;
      const std::span<float> to = part(s);
      std::ranges::fill(to, 0.0F);
      for (size_t i = 0; i < sum.indices.size(); ++i) to[sum.indices[i]] = sum.values[i];
    }
  }

  int64_t sent_bytes() const override { return exchange_.sent_bytes(); }
  void abandon() override { exchange_.abandon(); }
  void end_after_loss() override { exchange_.end_after_loss(); }
  std::map<std::string, Tensor> state() const override { return feedback_.state(); }
  void restore(const std::map<std::string, Tensor>& state) override { feedback_.restore(state); }
  void forget() override { feedback_.forget(); }
  void forget_what_is_shared() override { feedback_.forget_passes(); }

 private:
  std::span<float> part(size_t slot) const {
    const ParameterRange range = slots_[slot].range;
    return outer_.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
  }

  const std::span<float> outer_;
  const std::vector<ParameterSlot> slots_;
  std::vector<int64_t> count_;  // of elements that a site sends of each slot
  ErrorFeedback feedback_;
  std::deque<Fragment> under_way_;
  SparseExchange exchange_;  // ends first
};

}  // namespace

std::unique_ptr<OuterExchange> selective_outer_exchange(std::span<float> outer,
                                                        std::span<const ParameterSlot> slots,
                                                        Communicator& communicator,
                                                        const Sites& sites,
                                                        const OuterSelection& options) {
  return std::make_unique<SelectiveOuterExchange>(outer, slots, communicator, sites, options);
}

}  // namespace ndtrain
