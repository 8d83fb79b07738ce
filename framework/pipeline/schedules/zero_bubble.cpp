#include "framework/pipeline/schedules/in_order_schedule.h"
#include "framework/pipeline/schedules/schedules.h"

namespace ndtrain {
namespace {

class ZeroBubble final : public InOrderSchedule {
 public:
  std::string_view name() const override { return "zb"; }

 protected:
  int64_t ahead(const PipeShape& shape, int stage) const override {
    return shape.stages - 1 - stage;
  }
  bool splits_backward() const override { return true; }
  int64_t weights_behind(const PipeShape&, int stage) const override { return stage; }
};

}  // namespace

std::unique_ptr<PipelineSchedule> zero_bubble_schedule() { return std::make_unique<ZeroBubble>(); }

}  // namespace ndtrain
