// Outer gradients of sites that train by themselves become their sum.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "framework/comm/communicator.h"
#include "framework/core/dtype.h"
#include "framework/core/tensor.h"
#include "framework/sparse/local/fragments.h"
#include "framework/sparse/selection/compressor.h"
#include "framework/sparse/selection/value_coding.h"
#include "framework/sparse/sync/message_gather.h"
#include "framework/sparse/sync/sites.h"

namespace ndtrain {

// All ranks make the same calls. One thread.
class OuterExchange {
 public:
  virtual ~OuterExchange() = default;

  // The summands of this site lie in the fragment's range; it is this object's until end().
  virtual void begin(const Fragment& fragment) = 0;
  // Of what was begun first and has not ended: the sums stand in its range, the same bits on all
  // ranks. Waits. Throws RankLost.
  virtual void end() = 0;
  virtual int64_t sent_bytes() const = 0;  // to each other site, in all

  // As SlowLinkSync's.
  virtual void abandon() {}
  virtual void end_after_loss() {}
  virtual std::map<std::string, Tensor> state() const { return {}; }
  virtual void restore(const std::map<std::string, Tensor>& /*state*/) {}
  virtual void forget() {}
  virtual void forget_what_is_shared() {}
};

// By all-reduce in the order of a tree (sum_tree.h), of f32 or rounded to 16 bits where it travels.
// `outer` lies as the parameters do, and must outlive it, as the communicator.
std::unique_ptr<OuterExchange> dense_outer_exchange(std::span<float> outer,
                                                    Communicator& communicator, const Sites& sites,
                                                    DType wire);

struct OuterSelection {
  std::string compressor = "topk";
  CompressorOptions compressing = {};
  double drop = 0.97;  // elements_to_send()
  ValueCoding wire = ValueCoding::kF32;
  GatherRoute route = GatherRoute::kDirect;
  uint64_t seed = 0;  // of compressors that draw
};

// By a few elements of each, in a thread of its own (sparse_exchange.h); a rank adds what it has
// not sent, and what rounding leaves, to what it sends next time (Sarfi et al., "Communication
// efficient LLM pre-training with SparseLoCo", arXiv:2508.15706). Likewise. Throws Error where the
// options do not go together.
std::unique_ptr<OuterExchange> selective_outer_exchange(std::span<float> outer,
                                                        std::span<const ParameterSlot> slots,
                                                        Communicator& communicator,
                                                        const Sites& sites,
                                                        const OuterSelection& options);

}  // namespace ndtrain
