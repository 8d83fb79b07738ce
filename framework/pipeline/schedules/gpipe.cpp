#include "framework/pipeline/schedules/in_order_schedule.h"
#include "framework/pipeline/schedules/schedules.h"

namespace ndtrain {
namespace {

class Gpipe final : public InOrderSchedule {
 public:
  std::string_view name() const override { return "gpipe"; }

 protected:
  int64_t ahead(const PipeShape& shape, int /*stage*/) const override {
    return shape.micro_batches - 1;
  }
};

}  // namespace

std::unique_ptr<PipelineSchedule> gpipe_schedule() { return std::make_unique<Gpipe>(); }

}  // namespace ndtrain
