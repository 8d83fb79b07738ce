#include "framework/pipeline/schedules/in_order_schedule.h"
#include "framework/pipeline/schedules/schedules.h"

namespace ndtrain {
namespace {

class OneForwardOneBackward final : public InOrderSchedule {
 public:
  std::string_view name() const override { return "1f1b"; }

 protected:
  int64_t ahead(const PipeShape& shape, int stage) const override {
    return shape.stages - 1 - stage;
  }
};

}  // namespace

std::unique_ptr<PipelineSchedule> one_forward_one_backward_schedule() {
  return std::make_unique<OneForwardOneBackward>();
}

}  // namespace ndtrain
