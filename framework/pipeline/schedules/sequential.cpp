#include "framework/pipeline/schedules/in_order_schedule.h"
#include "framework/pipeline/schedules/schedules.h"

namespace ndtrain {
namespace {

class Sequential final : public InOrderSchedule {
 public:
  std::string_view name() const override { return "sync"; }

 protected:
  int64_t ahead(const PipeShape&, int /*stage*/) const override { return 0; }
};

}  // namespace

std::unique_ptr<PipelineSchedule> sequential_schedule() { return std::make_unique<Sequential>(); }

}  // namespace ndtrain
