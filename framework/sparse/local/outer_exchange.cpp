#include "framework/sparse/local/outer_exchange.h"

#include "framework/comm/wire_type.h"
#include "framework/sparse/sync/site_all_reduce.h"

namespace ndtrain {
namespace {

class DenseOuterExchange final : public OuterExchange {
 public:
  DenseOuterExchange(std::span<float> outer, Communicator& communicator, const Sites& sites,
                     DType wire)
      : outer_(outer), sums_(communicator, sites), wire_(wire) {
    check_wire_type(wire);
  }

  void begin(const Fragment& fragment) override {
    sums_.begin(outer_.subspan(static_cast<size_t>(fragment.range.begin),
                               static_cast<size_t>(fragment.range.size())),
                "outer gradients", wire_);
  }
  void end() override { sums_.end(); }
  int64_t sent_bytes() const override { return sums_.sent_bytes(); }

 private:
  const std::span<float> outer_;
  SiteAllReduce sums_;
  const DType wire_;
};

}  // namespace

std::unique_ptr<OuterExchange> dense_outer_exchange(std::span<float> outer,
                                                    Communicator& communicator, const Sites& sites,
                                                    DType wire) {
  return std::make_unique<DenseOuterExchange>(outer, communicator, sites, wire);
}

}  // namespace ndtrain
