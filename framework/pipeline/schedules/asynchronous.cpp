#include "framework/pipeline/schedules/in_order_schedule.h"
#include "framework/pipeline/schedules/schedules.h"

namespace ndtrain {
namespace {

class Asynchronous final : public InOrderSchedule {
 public:
  std::string_view name() const override { return "async"; }
  bool synchronous() const override { return false; }
  int delay(const PipeShape& shape, int stage) const override {
    return shape.trains(stage) ? shape.stages - 1 - stage : 0;
  }

 protected:
  int64_t ahead(const PipeShape& shape, int stage) const override {
    return (shape.stages - 1 - stage) * shape.micro_batches;
  }
};

}  // namespace

std::unique_ptr<PipelineSchedule> asynchronous_schedule() {
  return std::make_unique<Asynchronous>();
}

}  // namespace ndtrain
