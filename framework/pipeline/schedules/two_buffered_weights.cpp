#include "framework/pipeline/schedules/in_order_schedule.h"
#include "framework/pipeline/schedules/schedules.h"

namespace ndtrain {
namespace {

class TwoBufferedWeights final : public InOrderSchedule {
 public:
  std::string_view name() const override { return "2bw"; }
  bool synchronous() const override { return false; }
  int delay(const PipeShape& shape, int stage) const override {
    return shape.trains(stage) ? 1 : 0;
  }

 protected:
  int64_t ahead(const PipeShape& shape, int stage) const override {
    return shape.stages - 1 - stage;
  }
};

}  // namespace

std::unique_ptr<PipelineSchedule> two_buffered_weights_schedule() {
  return std::make_unique<TwoBufferedWeights>();
}

}  // namespace ndtrain
